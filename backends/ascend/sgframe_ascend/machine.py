"""Which NPUs this machine has for this process. Looks at device files only: opens no device."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"
"""Chooses among the NPUs that are there, which count from 0 whatever their files are called."""


def find_npus(folder: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> tuple[tuple[int, ...], str]:
    """The numbers of the NPUs that this process may take; and, where there are none, why not and what to do."""
    count = sum(re.fullmatch(r"davinci\d+", path.name) is not None for path in folder.glob("davinci*"))
    if not count:
        return (), "no NPU: no /dev/davinci0 … (install the driver, or give the container its devices)"
    if VARIABLE not in environment:
        return tuple(range(count)), ""
    chosen = _chosen(environment[VARIABLE], count)
    hidden = (
        f"{VARIABLE} is {environment[VARIABLE]!r}, which shows none of the {count} NPUs (count them from 0, ascending)"
    )
    return chosen, "" if chosen else hidden


def _chosen(listed: str, count: int) -> tuple[int, ...]:
    """What CANN takes of such a list: it reads as far as there are numbers and single commas, takes nothing if they do not
    ascend, and leaves out those that are not there."""
    readable = re.match(r"\d+(,\d+)*", listed)
    numbers = [int(each) for each in readable[0].split(",")] if readable else []
    if numbers != sorted(set(numbers)):
        return ()
    return tuple(number for number in numbers if number < count)
