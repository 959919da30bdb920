"""The pages on how to write a part have their reader install what they run; a fresh environment has sgframe alone."""

from __future__ import annotations

import pytest
from pages import HOUSE, commands


@pytest.mark.parametrize("page", sorted(file.name for file in (HOUSE / "docs" / "how-to").glob("*.md")))
def test_pytest_and_what_the_contracts_stand_on_are_installed_before_they_are_run(page: str) -> None:
    typed = commands(f"docs/how-to/{page}")
    install = typed[typed.index("pytest") - 1].split()
    assert install[:3] == ["pip", "install", "."]
    asyncio = ["pytest-asyncio"] if page == "launcher.md" else []
    assert sorted(install[3:]) == sorted(["pytest", "hypothesis", *asyncio])
