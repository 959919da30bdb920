"""Compares the masks of grammars and explains each difference: ``python benchmarks/mask_difference.py --help``."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drive.causes import CAUSES, Cause, cause_of
from drive.machine import this_machine
from drive.parting import Pair, Parting

from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import RequestError
from sgframe.testing import grammar_walker
from sgframe.testing.walker import GrammarWalker

OURS = "compressed-fsm"
THEIRS = ("llguidance", "xgrammar")
SEPARATORS: dict[Whitespace, tuple[str, str]] = {"compact": (",", ":"), "fixed": (", ", ": ")}
SHOWN = 20
"""Of what is unexplained."""
REGEXES = {
    r"[a-z]+": "hello",
    r"\d{3}-\d{4}": "555-1234",
    r"\w+ \w+": "hello world",
    r".{1,20}": "What é 日 😀?",
    r"[^a]{3}": "béd",
    r"yes|no|maybe": "maybe",
    r"\s*x\s*": "  x ",
    r"[A-Z][a-z]{2,10}( [A-Z][a-z]+)*": "Ada Lovelace",
    r"[\u4e00-\u9fff]+": "日本",
    r"(?:\+|-)?\d+(?:\.\d+)?([eE][+-]?\d+)?": "-12.5e3",
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])": "2024-02-29",
    r"[\x20-\x7e]*": "plain ~ text",
    r"(a|ab)(c|bcd)(d*)": "abcd",
    r"The answer is (yes|no)\.": "The answer is yes.",
    r"#[0-9a-fA-F]{6}": "#a0B1c2",
    r"[^\n]*\n": "one line\n",
    r"(?:[😀-😎]|é)+": "😀é😁",
    r"\S+@\S+\.[a-z]{2,}": "ada@example.org",
}
"""Expressions, each with a text that it matches."""


@dataclass(frozen=True)
class Case:
    """A constraint, and texts of which each is a whole output."""

    constraint: Constraint
    texts: list[str]


@dataclass
class Found:
    """What came of comparing with one library. By cause: the positions where it is at work, and the tokens."""

    refused: int = 0
    compared: int = 0
    positions: int = 0
    equal: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    at: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    examples: dict[str, Parting] = field(default_factory=dict)
    unexplained: list[tuple[Constraint, Parting]] = field(default_factory=list)

    def add(self, constraint: Constraint, partings: list[Parting]) -> None:
        """The differences of one position."""
        schema = constraint.text if constraint.kind == "json_schema" else None
        causes = [(cause_of(parting, partings, schema), parting) for parting in partings]
        self.at.update({cause.name for cause, _ in causes if cause})
        for cause, parting in causes:
            if cause is None:
                self.unexplained.append((constraint, parting))
            else:
                self.tokens[cause.name] += parting.count
                self.examples.setdefault(cause.name, parting)


def compare(case: Case, ours: GrammarWalker, theirs: GrammarWalker, found: Found) -> None:
    """Walk the texts of ``case`` token by token through both grammars, up to a token that one of them refuses."""
    try:
        one, other = (walker.compile_constraint(case.constraint) for walker in (ours, theirs))
    except RequestError:
        found.refused += 1
        return
    found.compared += 1
    for text in case.texts:
        pair = Pair(theirs.vocabulary, one.matcher(), other.matcher())
        for token in theirs.tokenizer.encode(text, add_special_tokens=False):
            found.positions += 1
            partings = list(pair.partings())
            found.equal += not partings
            found.add(case.constraint, partings)
            accepted = pair.accept(token)
            if not all(accepted):
                found.rejected.update(side for side, took in zip(("ours", "theirs"), accepted, strict=True) if not took)
                break


def cases(path: Path, limit: int) -> Iterator[Case]:
    """The expressions, then the schemas in ``path``, evenly spread, under both policies for whitespace."""
    for expression, text in REGEXES.items():
        yield Case(Constraint("regex", expression), [text])
    lines = path.read_text().splitlines()
    for line in lines[:: max(1, len(lines) // limit)][:limit] if limit else lines:
        said = json.loads(line)
        for whitespace, separators in SEPARATORS.items():
            texts = [json.dumps(value, ensure_ascii=False, separators=separators) for value in said["valid"]]
            yield Case(Constraint("json_schema", json.dumps(said["schema"]), whitespace), texts)


def report(name: str, found: Found) -> str:
    rejected = ", ".join(f"{count} by {side}" for side, count in found.rejected.items()) or "none"
    lines = [
        f"{OURS} and {name}: {found.compared} constraints compared, {found.refused} refused by one of them",
        f"  {found.positions:,} positions, {found.equal:,} of equal masks; texts cut short by a refused token: {rejected}",
        f"  {'cause':<32}{'positions':>10}{'tokens':>9}  {'only':<7}{'right':<6} example",
    ]
    lines += [_line(cause, found) for cause in CAUSES if cause.name in found.at]
    lines.append(f"  unexplained: {len(found.unexplained)}")
    lines += [f"    {constraint.text[:200]}\n    {parting}" for constraint, parting in found.unexplained[:SHOWN]]
    return "\n".join(lines)


def _line(cause: Cause, found: Found) -> str:
    at = found.examples[cause.name]
    text = f"{at.before[-24:]!r} + {bytes((at.byte,)) if at.byte is not None else at.example!r}"
    side = "ours" if at.ours else "theirs"
    figures = f"{found.at[cause.name]:>10,}{found.tokens[cause.name]:>9,}"
    return f"  {cause.name:<32}{figures}  {side:<7}{cause.right:<6} {text}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare the masks of compressed-fsm with those of other grammars, position by position."
    )
    parser.add_argument("--schemas", type=Path, required=True, help="lines of {schema, valid}")
    parser.add_argument("--limit", type=int, default=0, help="how many of them, evenly spread; 0: all")
    parser.add_argument("--grammars", default=",".join(THEIRS), help="with which (%(default)s)")
    parser.add_argument("--model", default="smollm2-135m", help="whose vocabulary (%(default)s)")
    options = parser.parse_args()
    print(f"{this_machine()}\nvocabulary of {options.model}")
    ours = grammar_walker(OURS, options.model)
    for name in options.grammars.split(","):
        theirs, found = grammar_walker(name, options.model), Found()
        for case in cases(options.schemas, options.limit):
            compare(case, ours, theirs, found)
        print(report(name, found))
    print("\n".join(f"{cause.name}: {cause.why}" for cause in CAUSES))


if __name__ == "__main__":
    main()
