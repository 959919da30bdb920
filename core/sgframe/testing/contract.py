"""What the contracts of all seams share. Knows none of them."""

from __future__ import annotations

from abc import ABC


class Contract(ABC):  # noqa: B024  # subclasses say what is abstract
    """Tests that need something written by whoever subclasses them: that is what is abstract.

    pytest passes over an abstract class without a word, so that its tests would seem to pass. Hence TypeError for a subclass
    named ``Test…`` that leaves anything out.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        missing = [name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)]
        if missing and cls.__name__.startswith("Test"):
            raise TypeError(
                f"{cls.__name__} has no {', '.join(missing)}, without which none of its tests runs; write it"
            )
