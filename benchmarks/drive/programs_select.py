"""What it costs to select one of four, by what it costs to score one option alone. Knows our server by a recorder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from statistics import median

import msgspec

import sgframe_dsl as sgf
from drive.programs_recorder import Recorder
from drive.programs_tasks import LETTERS, Writer
from drive.prompts import Texts

PROMPT_TOKENS = 300
OPTIONS = {
    "letters": LETTERS,
    "sentences": (" I am quite sure.", " It may be so.", " Nobody can tell.", " That is wrong."),
}


class Selects(msgspec.Struct, frozen=True, kw_only=True):
    """``options`` are letters or sentences; the prompt was ``cached`` or never seen. Milliseconds of ``select`` from all
    four and from the first alone, a prompt for each; ``round_trips`` are those of one ``select``."""

    options: str
    cached: bool
    four_ms: list[float]
    one_ms: list[float]
    round_trips: float

    @property
    def ratio(self) -> float:
        """Of the medians: four by one."""
        return median(self.four_ms) / median(self.one_ms)

    def __add__(self, other: Selects) -> Selects:
        """Both runs of the same."""
        return msgspec.structs.replace(
            self,
            four_ms=self.four_ms + other.four_ms,
            one_ms=self.one_ms + other.one_ms,
            round_trips=max(self.round_trips, other.round_trips),
        )


@sgf.function
def choose(s: sgf.State, prompt: str, options: Sequence[str]) -> None:
    s += prompt + sgf.select("choice", options)


@sgf.function
def read(s: sgf.State, prompt: str) -> None:
    s += prompt + sgf.gen("token", max_tokens=1)


def measure_selects(recorder: Recorder, texts: Texts, seed: str, pairs: int) -> list[Selects]:
    """One at a time, by turns; ``pairs`` of either."""
    writer = Writer(texts, Random(f"{seed}/select"), 1.0)
    return [_measure(recorder, writer, name, cached, pairs) for name in OPTIONS for cached in (False, True)]


def _measure(recorder: Recorder, writer: Writer, name: str, cached: bool, pairs: int) -> Selects:
    four = OPTIONS[name]
    times: dict[int, list[float]] = {len(four): [], 1: []}
    trips = 0
    for pair in range(pairs):
        for count in sorted(times, reverse=pair % 2 == 1):
            prompt = f"{writer.words(PROMPT_TOKENS)}?"
            if cached:
                read.run(prompt, backend=recorder)
            recorder.forget()
            start = time.perf_counter()
            choose.run(prompt, four[:count], backend=recorder)
            times[count].append(1000 * (time.perf_counter() - start))
            trips += recorder.round_trips
    return Selects(
        options=name, cached=cached, four_ms=times[len(four)], one_ms=times[1], round_trips=trips / (2 * pairs)
    )
