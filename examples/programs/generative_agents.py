"""Generative agents: what the inhabitants of a small town ask a model for all day (Park et al., 2023).

Five kinds of calls, as they were recorded. A call is an expression, made by a function. Calls of a kind begin with the same
words, and a description comes before what changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import rows, run_example

import sgframe_dsl as sgf


def poignancy_event(persona_name: str, persona_iss: str, event: str) -> sgf.Expression:
    task = "Rate from 1 (brushing teeth) to 10 (a birth in the family) how much an event means to somebody.\n\n"
    return f"{task}{persona_iss}\nEvent: {event}\nRate for {persona_name}: " + sgf.select("answer", RATES)


def generate_event_triple(persona_name: str, action: str) -> sgf.Expression:
    task = "Turn sentences into (subject, predicate, object).\n\nAda is eating breakfast: (Ada, eat, breakfast)\n"
    sentence = f"{persona_name} is {action}: ({persona_name},"
    return task + sentence + sgf.gen("answer", max_tokens=16, stop=[")", "\n"]) + ")"


def generate_pronunciatio(action: str) -> sgf.Expression:
    task = "Emoji for actions.\n\neating: 🍽️\nreading a book: 📖\n"
    return f"{task}{action}:" + sgf.gen("answer", max_tokens=8, stop="\n")


def action_location_sector(persona_name: str, sector_options: str, **known: str) -> sgf.Expression:
    task = "Choose a place.\n\nAda can go to: the library, the market.\nFor buying bread Ada goes to the market\n\n"
    home = f"{persona_name} is in {known['current_sector']} and lives in {known['living_sector']}."
    ways = f"{known['daily_plan']}\n{persona_name} can go to: {sector_options}.\n"
    asked = f"For {known['next_action']} {persona_name} goes to "
    return task + home + ways + asked + sgf.select("answer", sector_options.split(", "))


def action_location_object(
    persona_name: str, target_sector: str, target_sector_areas: str, **known: str
) -> sgf.Expression:
    task = "Choose a room.\n\nThe flat has: bathroom, kitchen.\nFor making tea Ada goes to the kitchen\n\n"
    place = f"{target_sector} has: {target_sector_areas}.\n"
    asked = f"For {known['next_action']} {persona_name} goes to the "
    return task + place + asked + sgf.select("answer", target_sector_areas.split(", "))


RATES = [str(rate) for rate in range(1, 11)]
CALLS: dict[str, Callable[..., sgf.Expression]] = {
    "poignancy_event": poignancy_event,
    "generate_event_triple": generate_event_triple,
    "generate_pronunciatio": generate_pronunciatio,
    "action_location_sector": action_location_sector,
    "action_location_object": action_location_object,
}


@sgf.function
def agent(s: sgf.State, kind: str, arguments: dict[str, Any]) -> None:
    s += CALLS[kind](**arguments)


def main(items: int = 10, concurrency: int = 8) -> list[str]:
    calls = rows("generative_agents.jsonl")[:items]
    states = agent.run_batch(calls, concurrency=concurrency, sampling={"temperature": 0})
    answers = [state["answer"].strip() for state in states]
    for call, answer in zip(calls, answers, strict=True):
        print(f"{call['kind']}: {answer}")
    return answers


if __name__ == "__main__":
    run_example(main)
