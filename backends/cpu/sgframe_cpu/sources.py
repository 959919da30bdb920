"""Which sources a compiled function is made of. Numba's cache on disk asks only for the file that a function stands in; were
it to go by that alone, it would give old code for new where something imported has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(r"^from sgframe_cpu(?:\.(\w+) import| import (\w+))", re.MULTILINE)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def named_by_sources(function: _Function) -> _Function:
    """``function``, whose qualified name, by which the cache names its files, ends with a digest of the sources of its
    module and of all that this imports from the package."""
    suffix = f".{_digest(Path(function.__code__.co_filename))}"
    function.__qualname__ = function.__qualname__.removesuffix(suffix) + suffix
    return function


def compiled(decorator: Callable[..., Any], *signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's ``decorator`` with its cache on disk; or without, where neither the package's folder nor the home can be
    written and NUMBA_CACHE_DIR names none: then kernels are compiled at each start.

    Of several processes that come to the same function one compiles it, and the others wait for that.
    """

    def compile_it(function: Callable[..., Any]) -> Any:
        if (cached := _cache_of(function)) is None:
            return decorator(*signature, **options)(function)
        with Path(cached.cache_path, f"{function.__qualname__}.lock").open("w") as lock:
            with contextlib.suppress(OSError):  # a file system that knows no locks: then each compiles
                fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed, be it by death
            return decorator(*signature, cache=True, **options)(function)

    return compile_it


def is_cached(function: Callable[..., Any], signature: Any) -> bool:
    """Whether the cache has what ``compiled`` makes of ``function``; also where there is no cache."""
    cached = _cache_of(function)
    return cached is None or cached.load_overload(signature, cpu_target.target_context) is not None


def _cache_of(function: Callable[..., Any]) -> FunctionCache | None:
    """Its cache on disk, if there is a place for one. From now on it is ``named_by_sources``."""
    try:
        return FunctionCache(named_by_sources(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return None


@cache
def _digest(file: Path) -> str:
    found, todo = dict[Path, str](), [file]
    while todo:
        each = todo.pop()
        if each not in found and each.exists():
            found[each] = each.read_text()
            todo += [_PACKAGE / f"{names[0] or names[1]}.py" for names in _IMPORT.findall(found[each])]
    return sha256("".join(found[each] for each in sorted(found)).encode()).hexdigest()[:12]
