"""A grammar that does what its constraint's text says: to see what becomes of those who wait for it."""

from __future__ import annotations

import os
import time

from sgframe.assembly.providers import PluginSettings
from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Program, Vocabulary


class TroubledGrammar(Grammar):
    """Each compilation leaves a line in the file that the constraint's text ends with, after ``@``."""

    kinds = frozenset({"regex"})

    def __init__(self, settings: PluginSettings, *, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def compile(self, constraint: Constraint) -> Program:
        deed, _, log = constraint.text.partition("@")
        if log:
            with open(log, "a") as file:
                file.write(f"{deed} {os.getpid()}\n")
        match deed.split():
            case ["sleep", seconds]:
                time.sleep(float(seconds))
            case ["spin"]:
                while True:
                    pass
            case ["eat", size]:
                bytearray(int(size))
            case ["die"]:
                os.abort()
            case ["refuse"]:
                raise RequestError("not this one", code="unsupported_schema")
            case ["fail"]:
                raise ValueError("a fault of its own")
            case ["return", "text"]:
                return Program("text")  # type: ignore[arg-type]
            case ["return", "nothing"]:
                return None  # type: ignore[return-value]
            case ["recurse"]:
                self.compile(constraint)
        return Program(deed.encode(), ("roughly",) if constraint.approximate else ())

    def load(self, data: bytes) -> CompiledGrammar:
        raise NotImplementedError


class UnbuildableGrammar(TroubledGrammar):
    def __init__(self, settings: PluginSettings, *, vocabulary: Vocabulary) -> None:
        raise ValueError("no such thing")
