"""The child process that compiles constraints: one at a time, and killed by its parent when one takes too long.

Its parent talks to it through its standard input and output: frames of a length and a msgpack message. The end of
standard input means that the parent is gone, also in the middle of a compilation.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import sys
import threading
from collections.abc import Mapping
from typing import IO

import msgspec
from setproctitle import setproctitle

from sgframe.assembly.choice import Choice
from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import Grammar, Program, Vocabulary


class Task(msgspec.Struct, frozen=True):
    """What a compiling process is for: ``grammars`` by name, and the data segment it may grow to, in bytes."""

    grammars: dict[str, Choice]
    vocabulary: Vocabulary
    memory: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The constraint cannot be honoured: a RequestError's message and code."""

    message: str
    code: str | None


class Compiled(msgspec.Struct, frozen=True, tag=True):
    program: Program


class Broken(msgspec.Struct, frozen=True, tag=True):
    """The grammar's own fault."""

    message: str


Outcome = Refused | Compiled | Broken


def attempt(grammars: Mapping[str, Grammar], constraint: Constraint) -> Outcome:
    """Compile by the grammar that ``constraint`` names."""
    grammar = grammars[constraint.grammar]
    try:
        if grammar.kinds and constraint.kind not in grammar.kinds:
            known = ", ".join(sorted(grammar.kinds))
            raise RequestError(
                f"the grammar {constraint.grammar} cannot constrain an output by {constraint.kind}; it knows {known}",
                code="unsupported_constraint",
            )
        return Compiled(_sound(grammar.compile(constraint)))
    except RequestError as error:
        return Refused(str(error), error.code)
    except MemoryError:
        return Refused("compiling the constraint takes more memory than allowed: simplify it", "grammar_too_large")
    except RecursionError:
        return Refused("the constraint is nested too deeply: flatten it", "grammar_too_large")
    except Exception as error:  # a plugin's code: its fault ends this request alone
        return Broken(f"the grammar {constraint.grammar} failed to compile the constraint: {error!r}")


def _sound(program: Program) -> Program:
    """Raises TypeError for what could not be sent on."""
    if not (isinstance(program, Program) and isinstance(program.data, bytes)):
        inside = f" of {type(program.data).__name__}" if isinstance(program, Program) else ""
        raise TypeError(f"compile must return a Program of bytes, found {type(program).__name__}{inside}")
    return program


def write_frame(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def _read_frames(pipe: IO[bytes], frames: queue.SimpleQueue[bytes]) -> None:
    """Queue what comes; leave at once when the other end is closed, whatever the process is doing."""
    while len(head := pipe.read(8)) == 8:
        frames.put(pipe.read(int.from_bytes(head, "little")))
    os._exit(0)


def main() -> None:
    """Entry of ``python -m sgframe.compiling``."""
    setproctitle("sgframe::compiling")
    os.nice(5)  # those who are being served come first
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_frames, args=(sys.stdin.buffer, frames), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the frames
    task = msgspec.msgpack.decode(frames.get(), type=Task)
    grammars = {name: choice.build(vocabulary=task.vocabulary) for name, choice in task.grammars.items()}
    with contextlib.suppress(ValueError, OSError):  # a lower limit is in force already
        resource.setrlimit(resource.RLIMIT_DATA, (task.memory, task.memory))
    write_frame(answers, b"")  # ready
    while True:
        constraint = msgspec.msgpack.decode(frames.get(), type=Constraint)
        write_frame(answers, msgspec.msgpack.encode(attempt(grammars, constraint)))


if __name__ == "__main__":
    main()
