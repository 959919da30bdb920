"""Stop strings in a stream: what is shown, held back and cut."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgframe.front.text import StopStrings, TextStream

stop_lists = st.lists(st.text("ab c", min_size=1, max_size=5), max_size=4).map(tuple)
cut_texts = st.lists(st.text("ab c", max_size=6), max_size=12)


def naive_cut(text: str, stops: tuple[str, ...], include_stop: bool) -> tuple[str, str | None]:
    """The whole text up to the first match, and that match, by trying every end and then every start."""
    for end in range(len(text) + 1):
        for start in range(end):
            if text[start:end] in stops:
                return text[: end if include_stop else start], text[start:end]
    return text, None


def held_back(text: str, stops: tuple[str, ...]) -> int:
    """How many characters at the end of ``text`` could still become a stop string."""
    return max((n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)


@given(stop_lists, cut_texts, st.booleans())
def test_the_stream_shows_what_the_whole_text_would(stops: tuple[str, ...], pieces: list[str], include: bool) -> None:
    stream = StopStrings(stops, include)
    shown = "".join(map(stream.feed, pieces)) + stream.finish()
    assert (shown, stream.matched) == naive_cut("".join(pieces), stops, include)


@given(stop_lists, cut_texts)
def test_exactly_what_could_become_a_stop_string_is_held_back(stops: tuple[str, ...], pieces: list[str]) -> None:
    stream, seen, shown = StopStrings(stops), "", ""
    for piece in pieces:
        seen, shown = seen + piece, shown + stream.feed(piece)
        cut, match = naive_cut(seen, stops, include_stop=False)
        assert shown == (cut if match else seen[: len(seen) - held_back(seen, stops)])


def feed_all(stream: StopStrings, pieces: list[str]) -> list[str]:
    return [*map(stream.feed, pieces), stream.finish()]


def test_no_part_of_a_stop_string_is_shown_before_it_is_recognised() -> None:
    stream = StopStrings(["DEFGHIJ"])
    assert feed_all(stream, ["ABC", "DEF", "G", "HI", "JK", "LM"]) == ["ABC", "", "", "", "", "", ""]
    assert stream.matched == "DEFGHIJ"


def test_what_was_held_back_is_shown_once_it_cannot_match() -> None:
    stream = StopStrings(["DEFGHIJ"])
    assert feed_all(stream, ["ABC", "DEF", "G", "HI", "X", "DE"]) == ["ABC", "", "", "", "DEFGHIX", "", "DE"]
    assert stream.matched is None


def test_a_stop_string_may_begin_and_end_inside_tokens() -> None:
    stream = StopStrings(["lo wor"])
    assert feed_all(stream, ["hel", "lo", " world"]) == ["he", "l", "", ""]
    assert stream.matched == "lo wor"


@pytest.mark.parametrize(
    ("stops", "text", "shown", "matched"),
    [
        (["a", "b"], "xbya", "x", "b"),  # which of several it was can be told
        (["abcd", "bc"], "abcd", "a", "bc"),  # the one complete first, though the other starts earlier
        (["bc", "abc"], "xabc", "x", "abc"),  # complete together: the one that starts earliest
        (["aab"], "aaab", "a", "aab"),
        (["abab!", "aba?"], "ababa?", "ab", "aba?"),
        (["日本"], "の日本語", "の", "日本"),
        (["\n\n"], "one\n\ntwo", "one", "\n\n"),
        (["a"], "abc", "", "a"),
        ([], "all of it", "all of it", None),
    ],
)
def test_where_the_text_is_cut(stops: list[str], text: str, shown: str, matched: str | None) -> None:
    for pieces in ([text], list(text)):
        stream = StopStrings(stops)
        assert "".join(feed_all(stream, pieces)) == shown
        assert stream.matched == matched


def test_the_stop_string_stays_when_asked_for_but_nothing_after_it() -> None:
    stream = StopStrings(["lo wor"], include_stop=True)
    assert feed_all(stream, ["hel", "lo", " world", "!"]) == ["he", "l", "lo wor", "", ""]


def test_a_stop_string_that_nearly_matches_for_a_long_time_costs_linear_steps() -> None:
    stop = "a" * 5_000 + "b"
    stream = StopStrings([stop])
    shown = sum(len(stream.feed("a")) for _ in range(50_000))
    assert shown == 45_000
    assert (stream.feed("b"), stream.matched) == ("", stop)


@given(st.text(" ab é日🙂", max_size=20), st.booleans(), st.randoms())
def test_a_text_stream_is_the_stripped_text_up_to_the_stop_string(text: str, strip: bool, rng: random.Random) -> None:
    stream = TextStream(("ab", "é日"), strip_leading_space=strip)
    whole, shown = text.encode(), ""
    while whole:
        size = rng.randint(1, 4)
        shown, whole = shown + stream.feed(whole[:size]), whole[size:]
    expected = naive_cut(text.removeprefix(" ") if strip else text, ("ab", "é日"), include_stop=False)
    assert (shown + stream.finish(), stream.matched) == expected


def test_exactly_one_leading_space_of_the_whole_text_is_stripped() -> None:
    stream = TextStream(strip_leading_space=True)
    assert [stream.feed(piece) for piece in (b"", b"  a", b" b")] == ["", " a", " b"]


def test_text_keeps_its_leading_space_unless_told() -> None:
    assert TextStream().feed(b" a") == " a"


def test_a_stop_string_with_multi_byte_characters_is_matched_across_byte_tokens() -> None:
    stream = TextStream(["🙂!"])
    pieces = [bytes([byte]) for byte in "ok🙂!no".encode()]
    assert "".join(map(stream.feed, pieces)) + stream.finish() == "ok"
    assert stream.matched == "🙂!"


def test_a_stop_string_can_match_in_the_unfinished_tail() -> None:
    stream = TextStream(["\ufffd"])
    assert (stream.feed(b"a\xf0\x9f"), stream.finish(), stream.matched) == ("a", "", "\ufffd")
