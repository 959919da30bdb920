"""Programs that generate, fork, join and select, in ordinary Python: ``import sgframe_dsl as sgf``.

>>> @sgf.function
... def capital(s, country):
...     s += f"The capital of {country} is" + sgf.gen("city", max_tokens=4, stop=".")
>>> capital.run("France", backend=sgf.Server("http://127.0.0.1:30000"))["city"]

Names are imported when first used, so that ``import sgframe_dsl`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sgframe_dsl.backend import Backend as Backend
    from sgframe_dsl.backends.openai import OpenAI as OpenAI
    from sgframe_dsl.backends.server import Server as Server
    from sgframe_dsl.branches import Branches as Branches
    from sgframe_dsl.defaults import set_default_backend as set_default_backend
    from sgframe_dsl.errors import BackendClosed as BackendClosed
    from sgframe_dsl.errors import BackendError as BackendError
    from sgframe_dsl.errors import NoSuchVariable as NoSuchVariable
    from sgframe_dsl.errors import ProgramError as ProgramError
    from sgframe_dsl.expressions import Expression as Expression
    from sgframe_dsl.expressions import assistant as assistant
    from sgframe_dsl.expressions import gen as gen
    from sgframe_dsl.expressions import role as role
    from sgframe_dsl.expressions import select as select
    from sgframe_dsl.expressions import system as system
    from sgframe_dsl.expressions import user as user
    from sgframe_dsl.functions import Function as Function
    from sgframe_dsl.functions import bind as bind
    from sgframe_dsl.functions import function as function
    from sgframe_dsl.judging import judge as judge
    from sgframe_dsl.meta import GenMeta as GenMeta
    from sgframe_dsl.meta import SelectMeta as SelectMeta
    from sgframe_dsl.state import State as State
    from sgframe_dsl.trace import Step as Step
    from sgframe_dsl.trace import Trace as Trace

_HOMES = {
    "Backend": "backend",
    "BackendClosed": "errors",
    "BackendError": "errors",
    "Branches": "branches",
    "Expression": "expressions",
    "Function": "functions",
    "GenMeta": "meta",
    "NoSuchVariable": "errors",
    "OpenAI": "backends.openai",
    "ProgramError": "errors",
    "SelectMeta": "meta",
    "Server": "backends.server",
    "State": "state",
    "Step": "trace",
    "Trace": "trace",
    "assistant": "expressions",
    "bind": "functions",
    "function": "functions",
    "gen": "expressions",
    "judge": "judging",
    "role": "expressions",
    "select": "expressions",
    "set_default_backend": "defaults",
    "system": "expressions",
    "user": "expressions",
}
__all__ = [
    "Backend",
    "BackendClosed",
    "BackendError",
    "Branches",
    "Expression",
    "Function",
    "GenMeta",
    "NoSuchVariable",
    "OpenAI",
    "ProgramError",
    "SelectMeta",
    "Server",
    "State",
    "Step",
    "Trace",
    "assistant",
    "bind",
    "function",
    "gen",
    "judge",
    "role",
    "select",
    "set_default_backend",
    "system",
    "user",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sgframe_dsl' has no attribute {name!r}")
    return getattr(import_module(f"sgframe_dsl.{_HOMES[name]}"), name)
