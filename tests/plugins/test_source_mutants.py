"""The model source contract catches faults: each source here has one, and fails the case named beside it and no other."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from contract_cases import cases_of, failed_cases

from sgframe.errors import ModelError
from sgframe.interfaces.source import CatalogueEntry, Checkpoint, Progress, Tokenizer
from sgframe.testing import SourceContract
from sgframe_simulated import SimulatedSourceSettings
from sgframe_simulated.source import SimulatedSource
from sgframe_simulated.tokenizer import BOS, ByteTokenizer


class Sound(SimulatedSource):
    """Gives tokenizers of the class ``kind``."""

    kind: type[ByteTokenizer] = ByteTokenizer

    def __init__(self) -> None:
        super().__init__(SimulatedSourceSettings())

    def tokenizer(self, checkpoint: Checkpoint) -> ByteTokenizer:
        return self.kind()


# ------------------------------------------------------------------------------------------------------- checkpoints


class OffersAModelTwice(Sound):
    def catalogue(self) -> Sequence[CatalogueEntry]:
        return [*super().catalogue()] * 2


class DoesNotKnowItsContext(Sound):
    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        return replace(super().resolve(name, progress), context_length=0)


class EndsByAnIdBeyondTheVocabulary(Sound):
    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        return replace(super().resolve(name, progress), eos_ids=(260,))


class NamesAFolderThatIsNotThere(Sound):
    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        return replace(super().resolve(name, progress), folder="nowhere")


class NumbersItsCheckpoints(Sound):
    count = 0

    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        NumbersItsCheckpoints.count += 1
        return replace(super().resolve(name, progress), name=f"{name}-{self.count}")


class TakesAnyName(Sound):
    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        return super().resolve("simulated", progress)


class DoesNotSayWhatItLooksFor(Sound):
    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        try:
            return super().resolve(name, progress)
        except ModelError:
            raise ModelError("not found") from None


# -------------------------------------------------------------------------------------------------------- tokenizers


class FoldsCase(ByteTokenizer):
    def token_bytes(self, token: int) -> bytes:
        return super().token_bytes(token).lower()


class KnowsNoBytesOfLateIds(ByteTokenizer):
    def token_bytes(self, token: int) -> bytes:
        return super().token_bytes(token) if token != 200 else None  # type: ignore[return-value]


class MiscountsItsVocabulary(ByteTokenizer):
    @property
    def vocab_size(self) -> int:
        return 256


class PutsTextAroundAPrompt(ByteTokenizer):
    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [*b" "] * add_special_tokens + super().encode(text, add_special_tokens=add_special_tokens)


class TakesNewlinesForSpecial(ByteTokenizer):
    def is_special(self, token: int) -> bool:
        return token == 10 or super().is_special(token)


class KeepsItsTextInOnePlace(ByteTokenizer):
    """Two threads that encode at once get what one of them asked for."""

    meeting = threading.Barrier(2)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        self.text = text
        if threading.current_thread() is not threading.main_thread():
            self.meeting.wait(10)
        return super().encode(self.text, add_special_tokens=add_special_tokens)


class SerializesAnother(ByteTokenizer):
    def serialized(self) -> str:
        return super().serialized().replace('"use_regex": false', '"use_regex": true').replace("false", "true", 1)


class RendersNothing(ByteTokenizer):
    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        return ""


class RendersAlthoughItHasNoTemplate(ByteTokenizer):
    @property
    def has_chat_template(self) -> bool:
        return False


class ForgetsItsSpecials(ByteTokenizer):
    def token_bytes(self, token: int) -> bytes:
        return super().token_bytes(token) if token != BOS + 2 else b"?"


SPELLS = "test_a_text_is_the_bytes_of_its_tokens"
MUTANTS: dict[type[Any], set[str]] = {
    OffersAModelTwice: {"test_the_catalogue_describes_each_model_once"},
    DoesNotKnowItsContext: {"test_a_checkpoint_says_what_a_scheduler_must_know"},
    EndsByAnIdBeyondTheVocabulary: {"test_a_checkpoint_says_what_a_scheduler_must_know"},
    NamesAFolderThatIsNotThere: {"test_a_checkpoint_is_on_disk_unless_it_has_no_files"},
    NumbersItsCheckpoints: {"test_a_name_leads_to_the_same_checkpoint_each_time"},
    TakesAnyName: {"test_an_unknown_name_is_an_error_that_says_it"},
    DoesNotSayWhatItLooksFor: {"test_an_unknown_name_is_an_error_that_says_it"},
    FoldsCase: {SPELLS},
    ForgetsItsSpecials: {SPELLS},
    KnowsNoBytesOfLateIds: {"test_every_id_of_the_model_stands_for_bytes_or_for_none"},
    MiscountsItsVocabulary: {
        "test_every_id_of_the_model_stands_for_bytes_or_for_none",
        "test_ids_are_within_the_vocabulary",
    },
    PutsTextAroundAPrompt: {"test_what_comes_around_a_prompt_is_special"},
    TakesNewlinesForSpecial: {"test_plain_text_has_no_special_tokens"},
    KeepsItsTextInOnePlace: {"test_threads_may_encode_at_once"},
    SerializesAnother: {"test_the_serialized_tokenizer_is_the_same_one"},
    RendersNothing: {"test_a_chat_template_is_refused_or_shows_what_was_said"},
    RendersAlthoughItHasNoTemplate: {"test_a_chat_template_is_refused_or_shows_what_was_said"},
}


class Contract(SourceContract):
    def __init__(self, kind: type[Any]) -> None:
        self.source = kind if issubclass(kind, Sound) else type("Given", (Sound,), {"kind": kind})

    def make(self) -> Sound:
        return self.source()

    def given(self, names: list[str]) -> dict[str, Checkpoint | Tokenizer]:
        checkpoint = self.make().resolve("simulated", lambda what, done, total: None)
        made = {"checkpoint": checkpoint, "tokenizer": self.make().tokenizer(checkpoint)}
        return {name: made[name] for name in names}


def failing(kind: type[Any]) -> set[str]:
    contract = Contract(kind)
    return failed_cases(contract, contract.given)


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_its_case_and_no_other(kind: type[Any]) -> None:
    assert failing(kind) == MUTANTS[kind]


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(SourceContract)) == set().union(*MUTANTS.values())


def test_a_sound_source_fails_nothing() -> None:
    assert failing(Sound) == set()


def test_a_source_without_a_model_here_says_what_to_set() -> None:
    class Elsewhere(Sound):
        def catalogue(self) -> Sequence[CatalogueEntry]:
            return [replace(entry, cached=False) for entry in super().catalogue()]

    with pytest.raises(pytest.fail.Exception, match="set `model` to a name that can be resolved here"):
        Contract(Elsewhere).test_a_name_leads_to_the_same_checkpoint_each_time(None)
