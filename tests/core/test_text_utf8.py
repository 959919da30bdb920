"""Bytes to characters: the joined stream equals the whole, for any bytes in any cut."""

from hypothesis import example, given
from hypothesis import strategies as st

from sgframe.front.text import Utf8Stream

FAMILY = "👨‍👩‍👧"
PIECES = [
    "é".encode(),
    "日本語".encode(),
    "🙂".encode(),
    FAMILY.encode(),
    "\ufffd".encode(),  # a literal replacement character is text like any other
    b"\xf0\x9f\x99",  # an emoji without its last byte
    b"\xc0\xaf",  # overlong
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",  # a surrogate
    b"\xf4\x90\x80\x80",  # beyond U+10FFFF
    b"\x80",
    b"\xff",
    b"plain",
]
streams = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.binary(max_size=4),
        st.text(st.characters(codec="utf-8"), max_size=3).map(str.encode),
    )
)


@st.composite
def cut_bytes(draw: st.DrawFn) -> list[bytes]:
    """Any bytes in any cut; some cuts are empty."""
    whole = b"".join(draw(streams))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def shown(pieces: list[bytes]) -> list[str]:
    stream = Utf8Stream()
    return [*(stream.feed(piece) for piece in pieces), stream.finish()]


@given(cut_bytes())
@example([bytes([byte]) for byte in b"".join(PIECES)])
def test_the_joined_text_is_the_decoded_whole(pieces: list[bytes]) -> None:
    assert "".join(shown(pieces)) == b"".join(pieces).decode("utf-8", "replace")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")))
def test_text_cut_at_every_byte_never_shows_a_replacement_character(text: str) -> None:
    assert shown([bytes([byte]) for byte in text.encode()]) == list(_at_last_byte(text))


def _at_last_byte(text: str) -> list[str]:
    """What each byte of ``text`` completes, and nothing at the end."""
    return [part for character in text for part in [""] * (len(character.encode()) - 1) + [character]] + [""]


def test_an_emoji_cut_into_byte_tokens_appears_once_and_whole() -> None:
    text = f"🙂{FAMILY} 日本語 é"
    parts = shown([bytes([byte]) for byte in text.encode()])
    assert [part for part in parts if part] == list(text)


def test_output_that_ends_inside_an_emoji_shows_one_replacement_at_the_end() -> None:
    assert shown([b"ok \xf0\x9f", b"\x99"]) == ["ok ", "", "\ufffd"]


def test_bytes_that_cannot_become_a_character_are_replaced_at_once() -> None:
    assert shown([b"\xe6", b"a"]) == ["", "\ufffda", ""]
