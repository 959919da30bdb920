"""The launcher contract catches faults: each launcher here has one, and fails the cases named beside it and no other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import faulty_launchers as launchers
import pytest
from contract_cases import cases_of, failed_cases

from sgframe.interfaces.launcher import Launcher
from sgframe.testing import LauncherContract, launcher

MUTANTS: dict[type[launchers.Sound], set[str]] = {
    launchers.AnswersNothing: {"test_a_crew_loads_and_answers", "test_two_crews_do_not_meet"},
    launchers.ListsChildrenBackwards: {
        "test_its_children_bear_the_names_of_the_letters_and_say_what_they_do",
        "test_what_a_child_dies_of_is_told_in_its_words",
    },
    launchers.HearsNoBeat: {"test_its_children_bear_the_names_of_the_letters_and_say_what_they_do"},
    launchers.GivesEverybodyTheFirstChannel: {"test_two_crews_do_not_meet"},
    launchers.TellsNoDeath: {
        "test_a_killed_child_is_told_at_once_and_its_crew_ends",
        "test_what_a_child_dies_of_is_told_in_its_words",
    },
    launchers.TellsDeathsInItsOwnWords: {"test_what_a_child_dies_of_is_told_in_its_words"},
    launchers.ForgetsWhomItKilled: {
        "test_a_crew_that_still_loads_is_ended_at_once",
        "test_what_a_child_dies_of_is_told_in_its_words",
    },
    launchers.LeavesAFolder: {"test_no_folder_stays_behind"},
}


class Contract(LauncherContract):
    def __init__(self, kind: type[launchers.Sound]) -> None:
        self.kind = kind

    def make(self) -> Launcher:
        return self.kind(None)


@pytest.fixture(autouse=True)
def _own_folders(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))


def failing(kind: type[launchers.Sound]) -> set[str]:
    return failed_cases(Contract(kind), lambda names: dict[str, Any]())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_its_cases_and_no_other(kind: type[launchers.Sound], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "PATIENCE", 8.0)
    assert failing(kind) == MUTANTS[kind]


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(LauncherContract)) == set().union(*MUTANTS.values())


@pytest.mark.slow
def test_a_sound_launcher_fails_nothing() -> None:
    assert failing(launchers.Sound) == set()
