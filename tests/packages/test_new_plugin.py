"""``sgframe new-plugin``: a whole package or nothing, of any seam, under any name that can be one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from pages import HOUSE

from sgframe.assembly.providers import API_VERSION
from sgframe_cli import main
from sgframe_cli.new_plugin.package import SEAMS

LONG = "a-name-of-many-words-2"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new_plugin(name: str, seam: str = "policy") -> Result:
    return CliRunner().invoke(main, ["new-plugin", name, "--seam", seam])


def write_all(*names: str) -> list[Path]:
    """Packages of all seams, of each of ``names`` with the seam's after it."""
    for name in names:
        for seam in SEAMS:
            assert new_plugin(f"{name}-{seam}", seam).exit_code == 0
    return sorted(Path.cwd().iterdir())


def run(*command: str | Path, **environ: str) -> str:
    done = subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------- what is written


def test_it_says_what_it_wrote_and_what_comes_next(here: Path) -> None:
    assert new_plugin("quick-one").output.splitlines() == [
        "sgframe-quick-one has a policy 'quick-one' that works as it is. Go on with",
        "  cd sgframe-quick-one",
        "  pip install --editable '.[test]'",
        "  pytest",
        "  sgframe plugins --plugin quick-one",
    ]
    assert [entry.name for entry in here.iterdir()] == ["sgframe-quick-one"]


@pytest.mark.parametrize(
    ("seam", "modules"),
    [
        ("policy", ["policy.py"]),
        ("cache", ["cache.py"]),
        ("grammar", ["grammar.py"]),
        ("transport", ["transport.py"]),
        ("backend", ["backend.py", "executor.py"]),
    ],
)
def test_the_package_is_complete(here: Path, seam: str, modules: list[str]) -> None:
    new_plugin("quick-one", seam)
    folder = here / "sgframe-quick-one"
    files = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    assert sorted(files) == sorted(
        [
            ".github/workflows/test.yml",
            ".gitignore",
            "README.md",
            "pyproject.toml",
            "sgframe_quick_one/__init__.py",
            *(f"sgframe_quick_one/{module}" for module in modules),
            "sgframe_quick_one/py.typed",
            "tests/test_sgframe_quick_one.py",
        ]
    )


def test_the_project_announces_the_plugin_by_its_name(here: Path) -> None:
    new_plugin("quick-one")
    project = tomllib.loads((here / "sgframe-quick-one" / "pyproject.toml").read_text())["project"]
    assert project["name"] == "sgframe-quick-one"
    assert project["entry-points"] == {"sgframe": {"quick-one": "sgframe_quick_one"}}


def test_the_part_states_the_version_that_it_was_written_for(here: Path) -> None:
    new_plugin("quick-one")
    assert f"    api={API_VERSION},\n" in (here / "sgframe-quick-one" / "sgframe_quick_one" / "__init__.py").read_text()


def test_the_ci_file_is_a_workflow_that_ends_with_choosing_the_part(here: Path) -> None:
    new_plugin("quick-one")
    job = yaml.safe_load((here / "sgframe-quick-one/.github/workflows/test.yml").read_text())["jobs"]["test"]
    assert job["steps"][1]["with"] == {"python-version": "${{ matrix.python }}"}
    assert [step["run"] for step in job["steps"] if "run" in step] == [
        "python -m pip install '.[test]'",
        "pytest",
        "sgframe config check --plugin quick-one",
    ]


@pytest.mark.usefixtures("here")
def test_what_is_written_is_tidy_under_short_and_long_names() -> None:
    write_all("x", LONG)
    run(sys.executable, "-m", "ruff", "check", "--no-cache", "--quiet", ".")
    run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", "--quiet", ".")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "seams",
    [
        pytest.param(["policy", "backend"], id="quick"),
        pytest.param(["cache", "grammar", "transport"], marks=pytest.mark.slow, id="slow"),
    ],
)
def test_the_part_passes_its_own_tests(seams: list[str]) -> None:
    for seam in seams:
        new_plugin(f"own-{seam}", seam)
    folders = [Path(f"sgframe-own-{seam}").absolute() for seam in seams]
    path = os.pathsep.join(map(str, [*folders, *filter(None, sys.path)]))
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--import-mode=importlib", "--rootdir", "."]
    printed = run(sys.executable, "-m", "pytest", *options, *folders, PYTHONPATH=path)
    assert re.search(r"^\d+ passed", printed, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_what_is_written_is_typed() -> None:
    folders = write_all("typed")
    sources = [entry for folder in folders for entry in (*folder.glob("sgframe_*"), *folder.glob("tests/*.py"))]
    options = [f"--config-file={HOUSE / 'pyproject.toml'}", "--follow-imports=silent", "--no-incremental"]
    roots = [*folders, *(HOUSE / root for root in ("core", "plugins", "frontends"))]
    run(sys.executable, "-m", "mypy", *options, *sources, MYPYPATH=os.pathsep.join(map(str, roots)))


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Fast_Lane",
            "write lower case letters, digits and single hyphens, first a letter, .*; did you mean fast-lane?",
        ),
        ("sgframe-fast", "no sgframe- before it, which the package gets by itself; did you mean fast?"),
        ("2q", "first a letter"),
        ("", "'' cannot be a plugin's name"),
        ("../x", "did you mean x?"),
        ("fast-", "did you mean fast?"),
        ("é", "lower case letters"),
        (
            "x" * 300,
            "a plugin's name has at most 64 characters, found 300; take a shorter one",
        ),
        ("lambda", "it is a word of Python's own"),
        ("off", "a YAML file would read it as False"),
        ("null", "a YAML file would read it as None"),
        ("lpm", "the name 'lpm' is taken by policy 'lpm' of plugin 'lpm' (built in); take another one"),
        ("radix", "taken by cache 'radix'"),
        ("basic", "taken by plugin 'basic' (built in)"),
        ("openai", "taken by the import package sgframe_openai"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_with_the_reason(here: Path, name: str, said: str) -> None:
    result = new_plugin(name)
    assert result.exit_code == 2
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), result.output), result.output
    assert list(here.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_a_seam_without_a_template_is_refused_with_those_that_have_one() -> None:
    result = new_plugin("quick-one", "sampler")
    assert result.exit_code == 2
    assert all(f"'{seam}'" in result.output for seam in SEAMS)


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_what_stands_there_already_is_left_alone(here: Path, kind: str) -> None:
    there = here / "sgframe-quick-one"
    if kind == "folder":
        there.mkdir()
    elif kind == "file":
        there.touch()
    else:
        there.symlink_to("nowhere")
    before = there.lstat()
    result = new_plugin("quick-one")
    assert result.exit_code == 2
    assert f"{there} exists already, and was left as it is" in result.output
    assert there.lstat() == before
    assert list(here.iterdir()) == [there]


def test_nothing_is_left_of_a_package_that_cannot_be_written_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    write_text = Path.write_text

    def until_the_disk_is_full(file: Path, text: str) -> int:
        written.append(file)
        if len(written) > 3:
            raise OSError(28, "No space left on device", str(file))
        return write_text(file, text)

    monkeypatch.setattr(Path, "write_text", until_the_disk_is_full)
    result = new_plugin("quick-one")
    assert result.exit_code == 2
    assert "cannot be written: No space left on device" in result.output
    assert list(here.iterdir()) == []
