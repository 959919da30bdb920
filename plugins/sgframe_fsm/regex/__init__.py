"""Regular expressions as ECMA-262 writes them, to expressions over bytes."""

from sgframe_fsm.regex.emitter import compile_regex

__all__ = ["compile_regex"]
