"""What this machine has of Ascend: device files, the CANN toolkit, torch_npu. Opens no device and imports no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_TOOLKIT_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")  # set by CANN's set_env.sh


def npus(folder: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> list[int]:
    """The numbers of the NPUs whose device files (``davinci0`` …) are here, as far as ASCEND_RT_VISIBLE_DEVICES allows."""
    found = sorted(
        int(match[1]) for path in folder.glob("davinci*") if (match := re.fullmatch(r"davinci(\d+)", path.name))
    )
    visible = environment.get("ASCEND_RT_VISIBLE_DEVICES")
    return (
        found if visible is None else [number for number in found if str(number) in visible.replace(" ", "").split(",")]
    )


def missing_software(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What an executor would stand on and is not here, and what to do."""
    faults = []
    toolkit = next((environment[name] for name in _TOOLKIT_VARIABLES if environment.get(name)), None)
    if toolkit is None:
        faults.append("the CANN toolkit is not set up (source its set_env.sh)")
    elif not Path(toolkit).is_dir():
        faults.append(f"the CANN toolkit is said to be in {toolkit}, where nothing is (source its set_env.sh again)")
    if not find_spec("torch_npu"):
        faults.append("torch_npu is not installed (pip install the one for your torch and CANN)")
    return faults
