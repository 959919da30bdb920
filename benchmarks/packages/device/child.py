"""The process of one section: ``python -m device.child MODULE:FUNCTION ROWS DEVICE FOLDER SECONDS``."""

from __future__ import annotations

import faulthandler
import sys
from importlib import import_module
from pathlib import Path

from device.environment import stand_in_for_absent
from device.interpreter import ease_interpreter
from device.rows import RowFile
from device.target import Target


def main(target: str, rows: str, device: str, folder: str, seconds: str) -> None:
    """Call the section with its Target and the report that writes its rows. After ``seconds`` print where it is."""
    faulthandler.dump_traceback_later(float(seconds))
    stand_in_for_absent()
    what = Target(device, Path(folder))
    if what.dry:
        ease_interpreter()
    module, _, function = target.partition(":")
    getattr(import_module(module), function)(what, RowFile(Path(rows)).add)


if __name__ == "__main__":
    main(*sys.argv[1:])
