"""Operators with the signatures of torch_npu's: declared to torch by their schemas, so that torch itself binds a call."""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from npu_rules import require

PROTOTYPES: dict[str, Any] = json.loads(Path(__file__).with_name("torch_npu_prototypes.json").read_text())
NAMESPACE = "npu_double"
_library = torch.library.Library(NAMESPACE, "DEF")


class Operator:
    """The operator ``name``, computed by ``formula``. A call must fit the schema, and the documentation where that is
    stricter: what it says comes by keyword does, and lengths that live on the host are a list of ints."""

    def __init__(self, name: str, formula: Callable[..., Any]) -> None:
        prototype = PROTOTYPES["operators"][name]
        _library.define(prototype["schema"])
        _library.impl(name, formula, "CompositeExplicitAutograd")
        self._overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        self._documented = signature(prototype["documented"]) if prototype["documented"] else None
        self.calls: deque[dict[str, Any]] = deque(maxlen=32)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._documented is not None:
            self._documented.bind(*args, **kwargs)
        arguments = self._overload._schema.arguments
        given = dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
        for argument in arguments:
            if "List[int]" in str(argument.type) and given.get(argument.name) is not None:
                value = given[argument.name]
                plain = isinstance(value, list) and all(type(each) is int for each in value)
                require(plain, "lengths on the host", f"{argument.name} of {type(value).__name__}")
        self.calls.append(given)
        return self._overload(*args, **kwargs)


def signature(prototype: str) -> inspect.Signature:
    """Names and kinds of the parameters of ``module.operator(Type name=default, *, …)``."""
    parameters = []
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for each in prototype[prototype.index("(") + 1 : prototype.rindex(")")].split(","):
        declared, _, default = each.strip().partition("=")
        if declared == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            value = default if default else inspect.Parameter.empty
            parameters.append(inspect.Parameter(declared.split()[-1], kind, default=value))
    return inspect.Signature(parameters)
