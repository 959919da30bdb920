"""How much work one grammar may cost, counted in steps so that the same grammar is refused on every machine alike."""

from __future__ import annotations

from sgframe_fsm.errors import GrammarTooLarge

COMPILE_STEPS = 40_000
"""What a compile of 100 ms takes, with all that is done around the steps, on a server core of the 2020s."""


SERVING_STEPS = 10_000
"""What one call of a matcher may take, others waiting meanwhile: about 40 ms."""


class Budget:
    """Steps that are left. ``refill`` gives the next piece of work the whole allowance again."""

    __slots__ = ("allowance", "left")

    def __init__(self, allowance: int) -> None:
        self.allowance = allowance
        self.left = allowance

    def spend(self, steps: int) -> None:
        """Raises GrammarTooLarge when fewer steps are left."""
        self.left -= steps
        if self.left < 0:
            raise GrammarTooLarge(
                f"the grammar is too large: it takes more than {self.allowance} steps to build; make it smaller: fewer "
                "alternatives, smaller bounds on repetition and length, fewer patterns that must hold at once"
            )

    def refill(self) -> None:
        self.left = self.allowance
