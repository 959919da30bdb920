"""Makes the double importable, and the ascend backend's operations over it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
