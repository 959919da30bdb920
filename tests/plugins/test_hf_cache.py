"""The model cache: every entry is made once, and whole or not at all."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sgframe.errors import ModelError
from sgframe_hf.cache import ModelCache, Scratch, cache_root


def quiet(what: str, done: int, total: int) -> None:
    pass


def make(scratch: Scratch) -> Path:
    made = scratch.folder / "made"
    made.mkdir()
    (made / "weights").write_text("whole")
    return made


def names(cache: ModelCache) -> list[str]:
    return sorted(path.name for path in cache.root.iterdir() if not path.name.endswith(".lock"))


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    first = cache.get("m", make, quiet)
    assert (first / "weights").read_text() == "whole"
    assert cache.get("m", pytest.fail, quiet) == first  # type: ignore[arg-type]
    assert names(cache) == ["m"]


def test_an_entry_whose_making_fails_is_not_there(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)

    def fail(scratch: Scratch) -> Path:
        make(scratch)
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        cache.get("m", fail, quiet)
    assert not cache.has("m")
    assert names(cache) == []


def test_of_many_at_once_one_makes_and_the_others_wait(tmp_path: Path) -> None:
    made: list[int] = []
    waits: list[str] = []

    def slow(scratch: Scratch) -> Path:
        made.append(1)
        time.sleep(0.3)
        return make(scratch)

    def get() -> None:
        ModelCache(tmp_path).get("m", slow, lambda what, done, total: waits.append(what))

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert set(waits) == {"waiting for another process that makes m"}


def test_a_killed_maker_leaves_nothing_that_looks_complete_and_its_remains_are_cleared(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from sgframe_hf.cache import ModelCache\n"
        "def make(scratch):\n"
        "    (scratch.folder / 'half').write_text('x'); print('started', flush=True); time.sleep(60)\n"
        f"ModelCache(Path({str(tmp_path)!r})).get('m', make, lambda *a: None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"started\n"
        maker.send_signal(signal.SIGKILL)
    cache = ModelCache(tmp_path)
    assert not cache.has("m")
    assert len(names(cache)) == 1
    cache.get("m", make, quiet)
    assert names(cache) == ["m"]


def test_a_cache_that_cannot_be_written_says_which_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"cannot write to the model cache .*file/models.*cache_folder"):
        ModelCache(tmp_path / "file" / "models").get("m", make, quiet)


def test_the_cache_is_the_users_unless_a_folder_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root("") == tmp_path / "sgframe"
    assert cache_root("/x/y") == Path("/x/y")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_root("") == Path.home() / ".cache" / "sgframe"
