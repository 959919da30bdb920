"""A compiled function is named by the sources that it is made of, so that the cache on disk never gives old code for new."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from time import sleep

import pytest
from numba import cfunc, types
from numba.core import config

from sgframe_cpu import sources


@pytest.fixture
def name(tmp_path, monkeypatch):
    """``name(**modules)``: what the function ``run`` of module ``a`` is called, in a package of those."""
    monkeypatch.setattr(sources, "_PACKAGE", tmp_path)

    def compute(**modules):
        def run():
            """Nothing."""

        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text)
        run.__code__ = run.__code__.replace(co_filename=str(tmp_path / "a.py"))
        run.__qualname__ = "run"
        sources._digest.cache_clear()
        return sources.named_by_sources(run).__qualname__

    return compute


A, B = "from sgframe_cpu.b import (\n    ONE,\n)", "from sgframe_cpu import c"


def test_the_same_sources_give_the_same_name(name):
    first = name(a=A, b=B, c="ONE = 1")
    assert first.startswith("run.")
    assert name(a=A, b=B, c="ONE = 1") == first


@pytest.mark.parametrize("changed", ["a", "b", "c"])
def test_what_is_imported_belongs_to_them(name, changed):
    modules = {"a": A, "b": B, "c": "ONE = 1"}
    assert name(**modules) != name(**modules | {changed: modules[changed] + "\n"})


def test_other_modules_do_not(name):
    assert name(a=A, b="", c="ONE = 1") == name(a=A, b="", c="ONE = 2")


def test_without_a_place_for_the_cache_functions_are_compiled_at_each_start(monkeypatch):
    def nowhere(function):
        raise RuntimeError(f"cannot cache function {function}: no locator available")

    monkeypatch.setattr(sources, "FunctionCache", nowhere)

    def make(cache=False):
        return lambda function: (function(), cache)

    assert sources.compiled(make)(lambda: 1) == (1, False)
    assert sources.is_cached(lambda: 1, ())


def test_other_faults_of_compiling_are_told():
    def make(cache=False):
        raise RuntimeError("no such thing")

    with pytest.raises(RuntimeError, match="no such thing"):
        sources.compiled(make)(lambda: 1)


def test_of_several_that_come_to_a_function_one_compiles_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sources.FunctionCache, "cache_path", tmp_path)
    at_it, most = set(), []

    def make(cache=False):
        def decorate(function):
            at_it.add(get_ident())
            most.append(len(at_it))
            sleep(0.02)
            at_it.remove(get_ident())
            return function

        return decorate

    def run():
        return 1

    with ThreadPoolExecutor(4) as processes:
        made = list(processes.map(lambda _: sources.compiled(make)(run), range(4)))
    assert [each() for each in made] == [1] * 4
    assert most == [1] * 4


def test_where_files_cannot_be_locked_each_compiles(monkeypatch, tmp_path):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(sources.FunctionCache, "cache_path", tmp_path)
    monkeypatch.setattr(sources.fcntl, "flock", refuse)
    assert sources.compiled(lambda cache: lambda function: (function(), cache))(lambda: 1) == (1, True)


def test_what_was_compiled_is_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def run(number):
        return number + 1

    signature = types.int64(types.int64)
    assert not sources.is_cached(run, signature)
    sources.compiled(cfunc, signature)(run)
    assert sources.is_cached(run, signature)
