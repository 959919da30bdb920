"""Makes ``tests/support`` importable for every test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
