"""The contract kit of executors, run by pytest in this process: a row for each test that fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from device.checkpoints import llama, make_checkpoint
from device.rows import Report, checked
from device.target import DRY, Target

DRY_TESTS = "rows_whose_last_token or mask_leaves"
FOLDER, DEVICE = "CONTRACT_FOLDER", "CONTRACT_DEVICE"
"""The environment variables by which ``contract_kit`` hears of its model and its device."""


class Recorder:
    """A pytest plugin that notes what came of each test."""

    def __init__(self) -> None:
        self.passed = 0
        self.faults: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = report.longreprtext.strip().splitlines()
            self.faults[report.nodeid.rpartition("::")[2]] = next(
                (line[1:].strip() for line in lines if line.startswith("E ")), lines[-1] if lines else "failed"
            )
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.faults["collecting the tests"] = report.longreprtext.strip().splitlines()[-1]


def run(target: Target, report: Report) -> None:
    folder = target.folder / "contract"
    folder.mkdir()
    make_checkpoint(llama(DRY.model), folder, torch.float32, torch.device("cpu"), std=0.2)
    os.environ |= {FOLDER: str(folder), DEVICE: target.device}
    recorder = Recorder()
    kit = Path(__file__).with_name("contract_kit.py")
    chosen: Sequence[str] = ("-k", DRY_TESTS) if target.dry else ()
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "-c",
        os.devnull,
        "--rootdir",
        str(kit.parent),
    )
    pytest.main([str(kit), *options, *chosen], plugins=[recorder])
    for name, fault in recorder.faults.items():
        report(checked(name, fault))
    report(checked("the kit", "" if recorder.passed else "no test passed", f"{recorder.passed} tests passed"))
