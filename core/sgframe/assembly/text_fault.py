"""What is wrong with the text of a file, and where."""

from __future__ import annotations

from pathlib import Path


class TextFault(ValueError):
    """A text that cannot be taken: ``problem`` says why, ``line`` where; 0 if that is not known."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line

    def at(self, file: Path) -> str:
        """``deploy.yaml:3: is indented by a tab``."""
        return f"{file}:{self.line}: {self.problem}" if self.line else f"{file}: {self.problem}"
