"""Which ids of an output its text keeps: text, cut anywhere, is the bytes of the kept ids and a tail."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgframe.front.generation import OutputStream
from sgframe.messages import Finish, TokenOutput, ints
from sgframe.sampling import SamplingParams
from sgframe_programs.tail import Kept, keep
from sgframe_simulated.tokenizer import ByteTokenizer

SPECIAL = 0


class Table(ByteTokenizer):
    """Token i stands for ``pieces[i - 1]``; token 0 is special."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [b"<|special|>", *pieces]

    def token_bytes(self, token: int) -> bytes:
        return self._pieces[token]

    def is_special(self, token: int) -> bool:
        return token == SPECIAL

    def bytes_of(self, ids: Sequence[int]) -> bytes:
        return b"".join(self._pieces[token] for token in ids if token != SPECIAL)


def answer(tokenizer: Table, ids: Sequence[int], params: SamplingParams) -> tuple[str, str | int | None]:
    """The text of ``ids`` as the engine tells it, and what ended it."""
    stream = OutputStream(0, 1, params, tokenizer)
    deltas = [stream.take(TokenOutput(0, ints(ids), 0, finish=Finish("length")))]
    return deltas[-1].text, deltas[-1].stop_match


@st.composite
def outputs(draw: st.DrawFn) -> tuple[Table, list[int], SamplingParams]:
    """A text cut into tokens at random bytes, special tokens between them, and a stop string out of its middle."""
    text = draw(st.text(alphabet="ab é日🙂\n", min_size=1, max_size=12))
    data = text.encode() if draw(st.booleans()) else draw(st.binary(min_size=1, max_size=12))
    cuts = sorted(draw(st.sets(st.integers(0, len(data)))) | {0, len(data)})
    pieces = [data[start:end] for start, end in pairwise(cuts)]
    ids: list[int] = []
    for token in range(1, len(pieces) + 1):
        ids += [SPECIAL, token] if draw(st.booleans()) else [token]
    decoded = data.decode("utf-8", "replace")
    start = draw(st.integers(0, len(decoded) - 1))
    stop = decoded[start : draw(st.integers(start + 1, len(decoded)))]
    return Table(pieces), ids, SamplingParams(stop=(stop,), include_stop=draw(st.booleans()))


@given(outputs())
def test_the_kept_ids_and_the_tail_are_the_text(output: tuple[Table, list[int], SamplingParams]) -> None:
    tokenizer, ids, params = output
    text, stop = answer(tokenizer, ids, params)
    kept = keep(tokenizer, ids, text, stop, params)
    assert tokenizer.bytes_of(ids[: kept.whole]).decode("utf-8", "replace") + kept.tail == text


@given(outputs())
def test_no_further_id_lies_within_the_text(output: tuple[Table, list[int], SamplingParams]) -> None:
    tokenizer, ids, params = output
    text, stop = answer(tokenizer, ids, params)
    kept = keep(tokenizer, ids, text, stop, params)
    for more in range(kept.whole + 1, len(ids) + 1):
        data = tokenizer.bytes_of(ids[:more])
        assert not text.encode().startswith(data) or data.decode("utf-8", "ignore").encode() != data


WORDS = Table([b"Hel", b"lo", b".\n", b"\xf0\x9f", b"\x99\x82", b" x"])


@pytest.mark.parametrize(
    ("ids", "stop", "include", "text", "kept"),
    [
        ([1, 2, 3, 6], "\n", False, "Hello.", Kept(2, 3, ".")),
        ([1, 2, 3, 6], "\n", True, "Hello.\n", Kept(3, 3, "")),
        ([1, 2, 3], ".", False, "Hello", Kept(2, 2, "")),
        ([1, 2], "Hel", False, "", Kept(0, 0, "")),
        ([1, 4, 5, 6], " ", False, "Hel🙂", Kept(3, 3, "")),
        ([1, 0, 2, 3], ".", False, "Hello", Kept(3, 3, "")),
        ([1, 2], "el", False, "H", Kept(0, 1, "H")),
    ],
)
def test_a_stop_string_cuts_in_the_middle_of_a_token(
    ids: list[int], stop: str, include: bool, text: str, kept: Kept
) -> None:
    params = SamplingParams(stop=(stop,), include_stop=include)
    told, match = answer(WORDS, ids, params)
    assert told == text
    assert keep(WORDS, ids, told, match, params) == kept


@pytest.mark.parametrize(
    ("stop_match", "params", "whole"),
    [
        (None, SamplingParams(), 3),
        (3, SamplingParams(), 2),
        (3, SamplingParams(include_stop=True), 3),
    ],
)
def test_a_stop_token_stays_only_if_it_shows(stop_match: int | None, params: SamplingParams, whole: int) -> None:
    assert keep(WORDS, [1, 2, 3], "Hello", stop_match, params) == Kept(whole, whole, "")


@pytest.mark.parametrize(("skip", "whole"), [(True, 2), (False, 3)])
def test_a_special_stop_token_shows_only_if_special_tokens_do(skip: bool, whole: int) -> None:
    params = SamplingParams(include_stop=True, skip_special_tokens=skip)
    assert keep(WORDS, [1, 2, SPECIAL], "Hello", SPECIAL, params) == Kept(whole, whole, "")


def test_a_character_left_unfinished_keeps_its_ids() -> None:
    assert keep(WORDS, [1, 4], "Hel\ufffd", None, SamplingParams()) == Kept(2, 2, "")
