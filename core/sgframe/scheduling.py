"""How a scheduler is made, as plain data: the same for the process that serves and for whoever replays what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from sgframe.assembly.choice import Choice, ShadowChoice
from sgframe.clock import StepClock
from sgframe.errors import ConfigError, PluginError
from sgframe.scheduler.estimator import ESTIMATORS
from sgframe.scheduler.scheduler import Limits, Scheduler
from sgframe.scheduler.shadow import NO_SHADOW, Shadow, Simulation

S = TypeVar("S", bound=Scheduler)


class SchedulerSpec(msgspec.Struct, frozen=True):
    """``admission`` names the estimator, see ESTIMATORS."""

    limits: Limits
    cache: Choice
    policy: Choice
    admission: str


def build(spec: SchedulerSpec, make: Callable[..., S], shadow: ShadowChoice | None = None) -> S:
    """A scheduler of its own parts: ``make(limits, cache, policy, estimator, clock, shadow)``. Raises PluginError."""
    clock = StepClock()
    page_size = spec.limits.page_size
    return make(
        spec.limits,
        spec.cache.build(page_size=page_size, clock=clock),
        spec.policy.build(),
        ESTIMATORS[spec.admission](page_size),
        clock,
        NO_SHADOW if shadow is None else _shadow(shadow, spec.limits, clock),
    )


def _shadow(choice: ShadowChoice, limits: Limits, clock: StepClock) -> Shadow:
    try:
        cache = choice.cache.build(page_size=limits.page_size, clock=clock)
        policy = choice.policy.build()
    except ConfigError as error:
        raise PluginError(f"in the shadow: {error}") from error
    simulation = Simulation(limits.slots, limits.page_size, cache, policy)
    return Shadow(choice.policy.label, choice.cache.label, simulation)
