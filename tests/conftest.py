"""Makes ``tests/support`` importable for every test, and knows the soak's options."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seconds", type=float, default=5.0, help="how long tests/soak runs")
    parser.addoption(
        "--soak-seed", type=int, default=0, help="the seed of its first episode; each further one takes the next"
    )


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder whose path leaves room for the names of sockets, as ``tmp_path`` does not everywhere."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)
