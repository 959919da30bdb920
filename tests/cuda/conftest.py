"""Runs the kernels in Triton's interpreter, on the CPU.

Triton decides when a kernel is defined, its own included, whether it is to be interpreted. So it is imported afresh (some
test may have imported transformers, which brings it along), and with it all kernels and what stands on them. What made them
so is gone before a test runs, and no process that one starts inherits it.
"""

import importlib
import os
import pkgutil
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

STAND_ON_TRITON = {
    f"sgframe_cuda.{name}" for name in ("attention", "executor", "flashinfer", "fused", "kernels", "ops")
}


def _is_to_be_imported_again(module: str) -> bool:
    package = ".".join(module.split(".")[:2])
    return package in STAND_ON_TRITON or (module.split(".")[0] == "triton" and package != "triton._C")


def _import_interpreted() -> None:
    for name in [each for each in sys.modules if _is_to_be_imported_again(each)]:
        del sys.modules[name]
        package, _, module = name.rpartition(".")
        vars(sys.modules.get(package, ModuleType(package))).pop(module, None)  # else the package hands out the old one
    with patch.dict(os.environ, TRITON_INTERPRET="1"):
        importlib.import_module("triton.experimental.gluon")  # which the interpreter would import later
        kernels = importlib.import_module("sgframe_cuda.kernels")
        for module in pkgutil.iter_modules(kernels.__path__):
            importlib.import_module(f"{kernels.__name__}.{module.name}")


def _patch_the_language_once() -> None:
    """The interpreter does so at each call of a function, which takes longer than most of them.

    And mend the bounds of its loops: Triton 3.6 asks NumPy for the number in an array of one element as NumPy refuses to
    give it from 2.4 on.
    """
    from triton import language
    from triton.runtime import interpreter

    original, seen = interpreter._patch_lang, set()

    def patch_language(function: Any) -> Any:
        spoken = frozenset(id(each) for each in function.__globals__.values() if isinstance(each, ModuleType))
        if spoken not in seen:
            seen.add(spoken)
            original(function)
            language.tensor.__index__ = lambda self: self.handle.data.item()
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = patch_language


def _multiply_bfloat16() -> None:
    """Triton 3.6 takes the bits of bfloat16 for integers in ``tl.dot``."""
    from triton import language
    from triton.runtime.interpreter import InterpreterBuilder

    original = InterpreterBuilder.create_dot

    def create_dot(self: Any, *operands: Any) -> Any:
        widened = [
            self.cast_impl(each, language.float32) if getattr(each, "dtype", None) == language.bfloat16 else each
            for each in operands
        ]
        return original(self, *widened)

    InterpreterBuilder.create_dot = create_dot


if find_spec("triton"):
    _import_interpreted()
    _patch_the_language_once()
    _multiply_bfloat16()
