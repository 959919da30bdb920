"""Triton's interpreter, as a dry run needs it: quicker, and right where Triton 3.6 is not. Knows no kernel."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any


def ease_interpreter() -> None:
    """To be called before a kernel runs."""
    _settle_modules()
    _widen_products()


def _settle_modules() -> None:
    """The interpreter puts its own functions into the modules that a function speaks of, and takes them out again, at every
    call: let them stay. And let loops have bounds: NumPy gives the number in an array of one element no longer by ``int``.
    """
    from triton import language  # noqa: PLC0415 (only where there is a dry run)
    from triton.runtime import interpreter  # noqa: PLC0415

    put_in = interpreter._patch_lang
    done = set()

    def put_in_once(function: Any) -> Any:
        modules = frozenset(id(each) for each in function.__globals__.values() if isinstance(each, ModuleType))
        if modules not in done:
            done.add(modules)
            put_in(function)
            language.tensor.__index__ = lambda self: self.handle.data.item()
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = put_in_once


def _widen_products() -> None:
    """It multiplies the bits of bfloat16 matrices as if they were integers: give it float32."""
    from triton import language  # noqa: PLC0415
    from triton.runtime.interpreter import InterpreterBuilder  # noqa: PLC0415

    multiply = InterpreterBuilder.create_dot

    def multiply_wide(self: Any, left: Any, right: Any, *others: Any) -> Any:
        def wide(each: Any) -> Any:
            return self.cast_impl(each, language.float32) if each.dtype == language.bfloat16 else each

        return multiply(self, wide(left), wide(right), *others)

    InterpreterBuilder.create_dot = multiply_wide
