"""A stop string within tokens that come together: what comes with it, guessed or forced, does not count."""

from __future__ import annotations

from sgframe.front.generation import OutputStream
from sgframe.messages import Finish, Logprobs, TokenOutput, ints
from sgframe.sampling import SamplingParams


class Letters:
    """Token 97 is "a", and so on."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])

    def is_special(self, token: int) -> bool:
        return False


def stream(*stop: str, include_stop: bool = False) -> OutputStream:
    return OutputStream(0, 5, SamplingParams(stop=stop, include_stop=include_stop), Letters())  # type: ignore[arg-type]


def output(text: str, finish: Finish | None = None, forced: int = 0) -> TokenOutput:
    entries = [Logprobs(token, -1.0, ints(), []) for token in text.encode()]
    return TokenOutput(1, ints(list(text.encode())), 0, logprobs=entries, finish=finish, forced=forced)


def test_tokens_behind_the_stop_string_are_cut_off() -> None:
    delta = stream("cd").take(output("abcdef"))
    assert (delta.text, delta.finish_reason, delta.stop_match) == ("ab", "stop", "cd")
    assert bytes(delta.tokens) == b"abcd"
    assert delta.usage.completion_tokens == 4
    assert delta.logprobs is not None
    assert len(delta.logprobs) == 4


def test_it_may_begin_in_what_came_before() -> None:
    it = stream("cd", include_stop=True)
    it.take(output("abc"))
    delta = it.take(output("defg", forced=3))
    assert (delta.text, bytes(delta.tokens)) == ("cd", b"d")
    assert delta.usage.completion_tokens == 4


def test_an_end_at_the_same_time_changes_nothing() -> None:
    delta = stream("b").take(output("abc", finish=Finish("length")))
    assert (delta.text, delta.finish_reason, delta.usage.completion_tokens) == ("a", "stop", 2)


def test_without_a_match_all_of_it_counts() -> None:
    delta = stream("x").take(output("abc", finish=Finish("length")))
    assert (delta.text, delta.finish_reason, delta.usage.completion_tokens) == ("abc", "length", 3)
