"""Small programs for tests of the language, and how to run them on a scripted backend."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from scripted_backend import ScriptedBackend

import sgframe_dsl as sgf
from sgframe_dsl.state import State


def run(backend: ScriptedBackend, body: Callable[[State], Any], **options: Any) -> State:
    return sgf.function(body).run(backend=backend, **options)


@sgf.function
def ask(s: State, text: str) -> None:
    s += text + sgf.gen("x")


@sgf.function
async def aask(s: State, text: str) -> str:
    s += text + sgf.gen("x")
    return str(await s.aget("x"))


def interrupt_soon(reached: threading.Event) -> None:
    """Ctrl-C in the main thread, once ``reached``."""

    def strike() -> None:
        assert reached.wait(5)
        time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=strike, daemon=True).start()
