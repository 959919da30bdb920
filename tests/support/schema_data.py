"""The schemas with labelled instances in ``tests/data``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "schemas"


def real_schemas() -> list[dict[str, Any]]:
    """Real schemas, each with its ``valid`` and ``invalid`` instances."""
    return [json.loads(line) for line in _read("real_schemas.jsonl").splitlines()]


def schema_test_suite() -> list[dict[str, Any]]:
    """The JSON-Schema-Test-Suite for draft 2020-12: ``tests`` are (description, instance, whether it is valid)."""
    suite: list[dict[str, Any]] = json.loads(_read("json_schema_test_suite_draft2020-12.json"))
    return suite


def _read(name: str) -> str:
    return (FOLDER / name).read_text()
