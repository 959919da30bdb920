"""How a scheduler is made, as plain data: the same for the process that serves and for whoever replays what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from sgframe.assembly.choice import Choice, ShadowChoice
from sgframe.clock import StepClock
from sgframe.errors import ConfigError, PluginError
from sgframe.interfaces.grammar import Grammar, Vocabulary
from sgframe.interfaces.speculator import Speculator
from sgframe.scheduler.estimator import ESTIMATORS
from sgframe.scheduler.guides import NO_GUIDES, Guides
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduler.shadow import NO_SHADOW, Shadow, Simulation
from sgframe.scheduler.speculation import Speculation

S = TypeVar("S", bound=Scheduler)


class GuidesSpec(msgspec.Struct, frozen=True):
    """The grammars, by name, the tokens they speak of, and whether forced tokens are written without asking the model."""

    grammars: dict[str, Choice]
    vocabulary: Vocabulary
    jump_forward: bool


class SpeculationSpec(msgspec.Struct, frozen=True):
    """What guesses tokens, how many there are, and at how many in a step the next one costs as much as the first."""

    speculator: Choice
    vocab_size: int
    wide_step: int


class SchedulerSpec(msgspec.Struct, frozen=True):
    """``admission`` names the estimator, see ESTIMATORS. Without ``guides`` no output can be constrained, without
    ``speculation`` nothing is guessed."""

    limits: Limits
    cache: Choice
    policy: Choice
    admission: str
    guides: GuidesSpec | None = None
    speculation: SpeculationSpec | None = None


def build(spec: SchedulerSpec, make: Callable[..., S], shadow: ShadowChoice | None = None) -> S:
    """A scheduler of its own parts, ``make(limits, cache, policy, estimator, clock, shadow, guides, speculation)``.

    Raises PluginError.
    """
    clock = StepClock()
    page_size = spec.limits.page_size
    return make(
        spec.limits,
        spec.cache.build(page_size=page_size, clock=clock),
        spec.policy.build(),
        ESTIMATORS[spec.admission](page_size),
        clock,
        NO_SHADOW if shadow is None else _shadow(shadow, spec.limits, clock),
        NO_GUIDES if spec.guides is None else _guides(spec.guides),
        None if spec.speculation is None else _speculation(spec.speculation),
    )


def _guides(spec: GuidesSpec) -> Guides:
    grammars: dict[str, Grammar] = {
        name: choice.build(vocabulary=spec.vocabulary) for name, choice in spec.grammars.items()
    }
    for grammar in grammars.values():
        grammar.prepare()
    return Guides(grammars, spec.vocabulary.words, jumps=spec.jump_forward)


def _speculation(spec: SpeculationSpec) -> Speculation | None:
    speculator: Speculator = spec.speculator.build()
    return Speculation(speculator, spec.wide_step, spec.vocab_size) if speculator.guesses else None


def _shadow(choice: ShadowChoice, limits: Limits, clock: StepClock) -> Shadow:
    try:
        cache = choice.cache.build(page_size=limits.page_size, clock=clock)
        policy = choice.policy.build()
    except ConfigError as error:
        raise PluginError(f"in the shadow: {error}") from error
    simulation = Simulation(limits.slots, limits.page_size, cache, policy)
    return Shadow(choice.policy.label, choice.cache.label, simulation)
