"""Which sources a compiled function is made of. Numba's cache on disk asks only for the file that a function stands in; were
it to go by that alone, it would give old code for new where something imported has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(r"^from sgframe_cpu(?:\.(\w+) import| import (\w+))", re.MULTILINE)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def named_by_sources(function: _Function) -> _Function:
    """``function``, whose qualified name, by which the cache names its files, ends with a digest of the sources of its
    module and of all that this imports from the package."""
    function.__qualname__ += f".{_digest(Path(function.__code__.co_filename))}"
    return function


def compiled(decorator: Callable[..., Any], *signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's ``decorator`` with its cache on disk; or without, where neither the package's folder nor the home can be
    written and NUMBA_CACHE_DIR names none: then kernels are compiled at each start."""

    def compile_it(function: Callable[..., Any]) -> Any:
        named = named_by_sources(function)
        try:
            return decorator(*signature, cache=True, **options)(named)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return decorator(*signature, **options)(named)

    return compile_it


@cache
def _digest(file: Path) -> str:
    found, todo = dict[Path, str](), [file]
    while todo:
        each = todo.pop()
        if each not in found and each.exists():
            found[each] = each.read_text()
            todo += [_PACKAGE / f"{names[0] or names[1]}.py" for names in _IMPORT.findall(found[each])]
    return sha256("".join(found[each] for each in sorted(found)).encode()).hexdigest()[:12]
