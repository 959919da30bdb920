"""What jump-forward comes to: rates with and without it, what was forced, whether answers are valid and the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median

import msgspec

from drive.client import Answer
from drive.jumps import Load, Part, Round
from drive.machine import Machine
from drive.schemas import Sample, is_valid


@dataclass(slots=True)
class Rounds:
    """One side's, a pair for each run: with prompts and schemas that the server has never seen, and with the same again."""

    new: list[Round] = field(default_factory=list)
    again: list[Round] = field(default_factory=list)


class Rate(msgspec.Struct, frozen=True):
    """Output tokens per second. ``spread`` is the range of the runs' ``values`` by their median."""

    median: float
    spread: float
    values: list[float]

    @classmethod
    def of(cls, values: list[float]) -> Rate:
        middle = median(values)
        return cls(middle, (max(values) - min(values)) / middle, values)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``ratio``: with jump-forward by without."""

    what: str
    jumping: Rate
    plain: Rate
    ratio: float


class Quality(msgspec.Struct, frozen=True):
    """Of the ``answers`` in all rounds, those that ``ended`` before the limit, and the ``valid`` ones of these; the others,
    by the sample's id, are ``invalid``. ``repeated`` were word for word the same in both rounds of the first run."""

    answers: int
    ended: int
    valid: int
    invalid: list[str]
    repeated: int

    @classmethod
    def of(cls, rounds: Rounds, samples: Mapping[str, Sample]) -> Quality:
        every = list(chain.from_iterable(one.all.answers.items() for one in (*rounds.new, *rounds.again)))
        ended = [(name, answer) for name, answer in every if answer.ended]
        invalid = [name for name, answer in ended if not is_valid(answer.text, samples[name].schema)]
        repeated = _compare(rounds.new[0].all, rounds.again[0].all).same
        return cls(len(every), len(ended), len(ended) - len(invalid), sorted(set(invalid)), repeated)


class Difference(msgspec.Struct, frozen=True):
    """The texts of one sample with and without jump-forward: what they have in ``common``, and how each goes on."""

    id: str
    common: str
    jumping: str
    plain: str


class Comparison(msgspec.Struct, frozen=True):
    """How many texts were word for word the ``same``; how many were so until the limit ``cut`` one of the two, which
    spelt it in more tokens; and the others."""

    same: int
    cut: int
    different: list[Difference]

    @property
    def total(self) -> int:
        return self.same + self.cut + len(self.different)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``forced`` are shares of the tokens, by what was asked for. ``texts`` are those of the first run, with and without."""

    machine: Machine
    runs: int
    tokens: int
    concurrency: int
    schemas: int
    function_calls: int
    refused: dict[str, str]
    rows: list[Row]
    forced: dict[str, float]
    jumping: Quality
    plain: Quality
    texts: Comparison

    def table(self) -> str:
        lines = [
            f"{self.machine}",
            f"{self.schemas} schemas, {self.function_calls} of them of function calls, {len(self.refused)} refused; "
            f"at most {self.tokens} tokens, {self.concurrency} at once, {self.runs} runs",
            f"{'tok/s, jump-forward:':<32} {'with':>8} {'spread':>6}  {'without':>8} {'spread':>6}  {'with/without':>12}",
            *(f"{row.what:<32} {_cells(row.jumping)}  {_cells(row.plain)}  {row.ratio:>12.2f}" for row in self.rows),
            "forced tokens: " + ", ".join(f"{share:.1%} of {what}" for what, share in self.forced.items()),
            f"same text with and without: {self.texts.same} of {self.texts.total}, and {self.texts.cut} but for the cut",
            *(_judged(name, one) for name, one in (("with", self.jumping), ("without", self.plain))),
        ]
        return "\n".join(lines)

    def details(self) -> str:
        """Which schemas were refused, which answers are invalid, and where texts part."""
        lines = [f"refused {name}: {reason}" for name, reason in self.refused.items()]
        lines += [f"invalid with: {name}" for name in self.jumping.invalid]
        lines += [f"invalid without: {name}" for name in self.plain.invalid]
        for one in self.texts.different:
            lines.append(f"different {one.id}, after {one.common[-40:]!r}:")
            lines += [f"    with {one.jumping[:60]!r}", f"    without {one.plain[:60]!r}"]
        return "\n".join(lines)


def report_on(machine: Machine, samples: Sequence[Sample], load: Load, jumping: Rounds, plain: Rounds) -> Report:
    """``samples`` are all that were asked for. Raises ValueError when the server refused every one."""
    first = jumping.new[0]
    if not first.all.answers:
        name, reason = next(iter(first.all.refused.items()))
        raise ValueError(f"the server refused every schema; {name}: {reason}")
    by_id = {sample.id: sample for sample in samples}
    return Report(
        machine=machine,
        runs=len(jumping.new),
        tokens=load.tokens,
        concurrency=load.concurrency,
        schemas=len(samples),
        function_calls=sum(sample.is_call for sample in samples),
        refused=first.all.refused,
        rows=[*_rows("prompts new", jumping.new, plain.new), *_rows("prompts cached", jumping.again, plain.again)],
        forced={what: part.forced for what, part in first.parts().items()},
        jumping=Quality.of(jumping, by_id),
        plain=Quality.of(plain, by_id),
        texts=_compare(first.all, plain.new[0].all),
    )


def _rows(prompts: str, jumping: Sequence[Round], plain: Sequence[Round]) -> Iterator[Row]:
    for what in jumping[0].parts():
        ours, other = (Rate.of([one.parts()[what].rate for one in rounds]) for rounds in (jumping, plain))
        yield Row(what=f"{what}, {prompts}", jumping=ours, plain=other, ratio=ours.median / other.median)


def _compare(one: Part, other: Part) -> Comparison:
    pairs = {name: (answer, other.answers[name]) for name, answer in one.answers.items() if name in other.answers}
    unequal = {name: pair for name, pair in pairs.items() if pair[0].text != pair[1].text}
    different = [_difference(name, *pair) for name, pair in unequal.items() if not _differ_by_cut(*pair)]
    return Comparison(len(pairs) - len(unequal), len(unequal) - len(different), different)


def _differ_by_cut(one: Answer, other: Answer) -> bool:
    shorter, longer = sorted((one, other), key=lambda answer: len(answer.text))
    return not shorter.ended and longer.text.startswith(shorter.text)


def _difference(name: str, jumping: Answer, plain: Answer) -> Difference:
    a, b = jumping.text, plain.text
    shorter = min(len(a), len(b))
    place = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    return Difference(name, a[:place], a[place:], b[place:])


def _cells(rate: Rate) -> str:
    return f"{rate.median:>8.1f} {rate.spread:>6.0%}"


def _judged(name: str, quality: Quality) -> str:
    cut = quality.answers - quality.ended
    return (
        f"{name}: {quality.valid} of {quality.ended} answers that ended are valid, {cut} were cut; "
        f"asked again, {quality.repeated} texts were the same"
    )
