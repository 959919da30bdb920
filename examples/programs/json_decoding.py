"""JSON decoding: a character's record by a pydantic model, and a bool by its type (Zheng et al., 2024, SGLang).

What the schema leaves no choice about is not generated token by token. The values come back parsed.
"""

from __future__ import annotations

from typing import Literal

from harness import rows, run_example
from pydantic import BaseModel, ConfigDict, Field

import sgframe_dsl as sgf


class Bounded(BaseModel):
    """Bounds are worth their words: a small model may write a string, or further properties, without end."""

    model_config = ConfigDict(extra="forbid")


class Wand(Bounded):
    wood: str = Field(max_length=20)
    core: Literal["dragon heartstring", "phoenix feather", "unicorn hair"]
    length: float = Field(ge=8, le=16, multiple_of=0.25)


class Character(Bounded):
    house: Literal["Gryffindor", "Hufflepuff", "Ravenclaw", "Slytherin"]
    blood_status: Literal["Pure-blood", "Half-blood", "Muggle-born"]
    occupation: str = Field(max_length=30)
    wand: Wand
    alive: bool


@sgf.function
def describe(s: sgf.State, name: str) -> None:
    s += "Characters of the Harry Potter novels, as JSON.\n\n"
    s += f"{name}: " + sgf.gen("character", json_schema=Character) + "\n"
    s += f"{name} teaches at Hogwarts: " + sgf.gen("teaches", dtype=bool)


def main(items: int = 10, concurrency: int = 8) -> list[Character]:
    names = [row["name"] for row in rows("characters.csv")[:items]]
    states = describe.run_batch(names, concurrency=concurrency, sampling={"temperature": 0})
    for name, state in zip(names, states, strict=True):
        print(f"{name}{' (a teacher)' * state['teaches']}: {state['character']!r}")
    return [state["character"] for state in states]


if __name__ == "__main__":
    run_example(main)
