"""The rules of torch_npu's documentation that the double holds its callers to, each by the sentence that states it."""

from __future__ import annotations

import json
from pathlib import Path

RULES: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("torch_npu_rules.json").read_text())


class Misuse(Exception):
    """An operator was called in a way that its documentation rules out."""


def require(holds: object, rule: str, found: object) -> None:
    """Raise Misuse, with ``rule`` of RULES and what was ``found``, unless it ``holds``."""
    if not holds:
        raise Misuse(f"{RULES[rule]['means']}; found {found}")
