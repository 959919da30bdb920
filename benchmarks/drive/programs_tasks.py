"""What the programs are about: texts of common words in the shape of known tasks. Knows no client and no server.

The first words of each text follow from the seed, so that no cache knows them; the sizes do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from drive.prompts import Texts

LEVELS = 2
WIDTH = 4
THOUGHT_TOKENS = 32
GRADES = (" good", " fair", " bad")
CONCLUSION_TOKENS = 16

CHAINS = 8
CHAIN_TOKENS = 60
NUMBER_TOKENS = 4

LETTERS = (" A", " B", " C", " D")

DIMENSIONS = ("clarity", "style", "evidence", "structure")
VIEW_TOKENS = 32
SUMMARY_TOKENS = 48


@dataclass(frozen=True, slots=True)
class Task:
    """One program's: the ``text`` before its first call, and the ``seed`` of the first of its samples."""

    text: str
    seed: int


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the texts of one run; all numbers of tokens and of tasks are times ``scale``, but 1 at least."""

    texts: Texts
    random: Random
    scale: float

    def count(self, number: int) -> int:
        return max(1, round(number * self.scale))

    def words(self, tokens: int) -> str:
        return self.texts.join(self.texts.draw(self.random, self.count(tokens)))

    def task(self, text: str) -> Task:
        return Task(text, self.random.randrange(2**31))


Make = Callable[[Writer], list[Task]]


def thought_tasks(writer: Writer) -> list[Task]:
    """8 problems after an explanation of 400 tokens, as in tree of thought (Yao et al. 2023)."""
    explained = writer.words(400)
    return [writer.task(f"{explained}.\n\nProblem: {writer.words(50)}.") for _ in range(writer.count(8))]


def chain_tasks(writer: Writer) -> list[Task]:
    """6 questions after 8 worked examples, 800 tokens together, as of GSM8K in self-consistency (Wang et al. 2022)."""
    examples = [
        f"Question: {writer.words(45)}?\nAnswer: {writer.words(40)}. The answer is {number}.\n\n" for number in range(8)
    ]
    return [writer.task(f"{''.join(examples)}Question: {writer.words(45)}?\nAnswer:") for _ in range(writer.count(6))]


def choice_tasks(writer: Writer) -> list[Task]:
    """10 questions on each of 4 subjects after 5 worked examples, 400 to 700 tokens together, as of MMLU (Hendrycks et
    al. 2021)."""
    tasks = []
    for subject in range(4):
        size = 40 + 20 * subject
        examples = [f"{_question(writer, size)}{LETTERS[number % len(LETTERS)]}\n\n" for number in range(5)]
        tasks += [writer.task("".join(examples) + _question(writer, 40)) for _ in range(writer.count(10))]
    return tasks


def _question(writer: Writer, tokens: int) -> str:
    options = "".join(f"{letter[1:]}. {writer.words(6)}\n" for letter in LETTERS)
    return f"{writer.words(tokens)}?\n{options}Answer:"


def essay_tasks(writer: Writer) -> list[Task]:
    """8 essays of 500 tokens, which have nothing in common."""
    return [writer.task(f"{writer.words(500)}.") for _ in range(writer.count(8))]
