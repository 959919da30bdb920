"""What docs/backends.md shows is run, and what it lists is all there is."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import HOUSE, blocks, commands, table, write_files

from sgframe.assembly.plugins import BUILTIN
from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.messages import ScheduleBatch
from sgframe.sampling import TokenSampling
from sgframe.testing import BackendContract, Driver, check_plugin, tiny_llama
from sgframe_torch.ops import DeviceOps

PAGE = "docs/backends.md"
EXAMPLE = "examples/plugins/sgframe-numpy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the page writes into one: its torch backend."""
    folder = tmp_path_factory.mktemp("page")
    write_files(folder, *(each for each in blocks(PAGE, "python") if "# sgframe_mine/" in each.first_line))
    return folder


@pytest.fixture(scope="module", autouse=True)
def packages(folder: Path) -> Iterator[None]:
    """The example's package, from where it stands, and the page's."""
    added = [str(HOUSE / EXAMPLE), str(folder)]
    sys.path.extend(added)
    yield
    for path in added:
        sys.path.remove(path)


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def block(part: str) -> dict[str, Any]:
    """The names that the page's block of code with ``part`` in it defines."""
    (text,) = (each.text for each in blocks(PAGE, "python") if part in each.text)
    names: dict[str, Any] = {"__name__": "page"}
    exec(text, names)
    return names


def cells(row: dict[str, Any], *names: str) -> list[str]:
    return [" ".join(map(str, row[name])) for name in names]


def test_the_commands_are_those_of_the_example() -> None:
    assert commands(PAGE) == commands(f"{EXAMPLE}/README.md")


def test_the_hook_module_offers_what_the_package_offers() -> None:
    (shown,) = block("# sgframe_numpy/__init__.py")["sgframe_backends"]()
    (offered,) = importlib.import_module("sgframe_numpy").sgframe_backends()
    assert (shown.name, shown.target) == (offered.name, offered.target)


def test_the_calls_of_an_executor_are_all_there() -> None:
    listed = re.findall(r"`(\w+)\(", " ".join(row[0] for row in table(PAGE, "| call | what it does |")))
    assert sorted(listed) == sorted(name for name in vars(Executor) if not name.startswith("_"))


def test_the_batches_come_to_what_the_table_says() -> None:
    rows = importlib.import_module("sgframe_numpy.rows").RowTable()
    letters = iter("abcde")
    names = {ord(letter): letter for letter in "abcde"}
    found = []
    batch: ScheduleBatch
    for batch in block("batches = [")["batches"]:
        for span, samples in zip(rows.apply(batch), batch.samples, strict=True):
            slots = span.slots.tolist()
            shown = {
                "tokens": [names.get(token, token) for token in span.tokens],
                "positions": span.positions.tolist(),
                "written": slots[span.start :],
                "read": slots,
            }
            letter = next(letters) if samples else ""
            found.append([str(batch.step), str(span.row.number), *cells(shown, *shown), letter])
            span.row.slots = span.slots
            span.row.tokens.extend(map(ord, letter))
    header = "| step | row | tokens | positions | written to slots | reads slots | samples |"
    assert found == table(PAGE, header)


QUICK = ("the_cut_of_a_prefill_changes_nothing", "rows_may_go_on_in_another_order_or_wait", "a_bias_is_added")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ExecutorSpec:
    model = tiny_llama(tmp_path_factory.mktemp("tiny-llama"))
    return ExecutorSpec(model, "float32", max_rows=8, max_step_tokens=128, context_length=128, kv_slots=512)


def run_quick_ones(contract: Any, spec: ExecutorSpec) -> None:
    for test in QUICK:
        getattr(contract, f"test_{test}")(Driver(contract.make().executor(), spec))


@pytest.fixture
def contract() -> Any:
    return block("# test_numpy_contract.py")["TestContract"]()


def test_the_kit_runs_as_the_page_subclasses_it(contract: Any, spec: ExecutorSpec) -> None:
    run_quick_ones(contract, spec)


def test_the_kit_runs_on_the_page_s_late_device(spec: ExecutorSpec) -> None:
    run_quick_ones(block("# test_mine_late.py")["TestTokensThatComeLate"](), spec)


def test_the_page_names_all_that_a_subclass_may_set(contract: Any) -> None:
    rows = table(PAGE, "| name | default | what it is |")
    assert [row[0] for row in rows] == ["`dtype`", "`draws`", "`checkpoint`", "`path_logprobs`"]
    assert [row[1] for row in rows[:2]] == [f'`"{contract.dtype}"`', f"`{contract.draws}`"]
    assert all(hasattr(contract, row[0].strip("`")) for row in rows)


def test_the_torch_backend_of_the_page_is_sound() -> None:
    assert check_plugin("sgframe_mine") == []
    assert importlib.import_module("sgframe_mine.backend").MyBackend(None).probe().usable


def test_the_kit_is_the_sum_of_the_parts_that_the_page_lists() -> None:
    listed = [row[0].strip("`") for row in table(PAGE, "| part | what must be right |")]
    assert listed == [f"{part.__module__}.{part.__name__}" for part in BackendContract.__bases__]


def printed(executor: Executor, spec: ExecutorSpec) -> list[int]:
    """What the page's lines with a driver print."""
    (text,) = (each.text for each in blocks(PAGE, "python") if "driver = Driver(" in each.text)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(text, {"Driver": Driver, "TokenSampling": TokenSampling, "executor": executor, "spec": spec})
    return [int(token) for token in output.getvalue().strip("[]\n").split(",")]


def test_the_torch_device_of_the_page_says_what_numpy_says(contract: Any, spec: ExecutorSpec) -> None:
    expected = printed(contract.make().executor(), spec)
    executor = importlib.import_module("sgframe_mine.backend").MyBackend(None).executor()
    assert printed(executor, spec) == expected
    assert len(expected) == 5


def test_the_tables_list_all_of_a_device_with_their_arguments() -> None:
    members = {**inspect.get_annotations(DeviceOps), **vars(DeviceOps)}
    known = [name + signature(member) for name, member in members.items() if not name.startswith("_")]
    tables = [*table(PAGE, "| declared | what it says |"), *table(PAGE, "| operation | reference |")]
    assert sorted(row[0].strip("`") for row in tables) == sorted(known)


def signature(member: Callable[..., Any] | object) -> str:
    if not inspect.isfunction(member):
        return ""
    _, *arguments = inspect.signature(member).parameters
    return f"({', '.join(arguments)})"


def test_every_built_in_backend_has_its_state() -> None:
    listed = [row[0].strip("`") for row in table(PAGE, "| backend | what it is | state |")]
    offering = [
        name for name, module in BUILTIN.items() if hasattr(importlib.import_module(module), "sgframe_backends")
    ]
    assert sorted(listed) == sorted(offering)


def test_what_the_page_names_of_the_runtime_is_there() -> None:
    text = (HOUSE / PAGE).read_text()
    for name in set(re.findall(r"`(sgframe(?:_torch|)\.[a-z_.]+\w)(?:\.[A-Z]\w+)?`", text)):
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name
    for path in re.findall(r"`(sgframe_\w+/\w+\.py)`", text):
        assert any((HOUSE / root / path).exists() for root in (EXAMPLE, "backends/torch")), path
