"""The schemas with labelled instances that stand beside the checkout; tests that need them skip where they are absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "schemas"


def real_schemas() -> list[dict[str, Any]]:
    """Real schemas, each with its ``valid`` and ``invalid`` instances."""
    return [json.loads(line) for line in _read("real_schemas.jsonl").splitlines()]


def schema_test_suite() -> list[dict[str, Any]]:
    """The JSON-Schema-Test-Suite for draft 2020-12: ``tests`` are (description, instance, whether it is valid)."""
    suite: list[dict[str, Any]] = json.loads(_read("json_schema_test_suite_draft2020-12.json"))
    return suite


def _read(name: str) -> str:
    if not FOLDER.is_dir():
        pytest.skip(f"needs the schema data in {FOLDER}")
    return (FOLDER / name).read_text()
