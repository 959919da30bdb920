"""Texts become ids as if they had stood in the prompt from the beginning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

from sgframe_hf.tokenizer import HfTokenizer
from sgframe_programs.content import Content, Given
from sgframe_programs.encoding import Encoder
from sgframe_programs.parts import Text
from sgframe_simulated.tokenizer import BOS, ByteTokenizer

CORPUS = ["The capital of France is Paris. The capital of Spain is Madrid.\n\nAnswer: abab", "a\nb\n\nc"] * 8


def byte_level() -> Tokenizer:
    """GPT-2's kind."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    return tokenizer


def sentencepiece() -> Tokenizer:
    """Llama 2's kind: puts a space before every text, and a BOS."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces = [text.replace(" ", "▁") for text in CORPUS]
    tokenizer.train_from_iterator(pieces, trainers.BpeTrainer(vocab_size=500, special_tokens=specials))
    spoken = json.loads(tokenizer.to_str())
    spoken["added_tokens"] = spoken["added_tokens"][:3]  # bytes are tokens, but no text names them
    tokenizer = Tokenizer.from_str(json.dumps(spoken))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", pair=None, special_tokens=[("<s>", 1)])
    return tokenizer


@pytest.fixture(scope="module", params=[byte_level, sentencepiece])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HfTokenizer:
    made: tokenizers.Tokenizer = request.param()
    return loaded(made, tmp_path_factory.mktemp("tokenizer"))


def loaded(made: Tokenizer, folder: Path) -> HfTokenizer:
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")
    return HfTokenizer(folder)


def text_of(tokenizer: HfTokenizer, ids: tuple[int, ...] | list[int]) -> str:
    """Of a whole prompt."""
    data = b"".join(tokenizer.token_bytes(token) for token in ids if not tokenizer.is_special(token))
    return data.decode().removeprefix(" " if tokenizer.strips_leading_space else "")


TEXTS = st.text(alphabet="ab \nThe.é", max_size=6)


@given(pieces=st.lists(TEXTS, min_size=1, max_size=4))
async def test_a_text_in_the_middle_adds_itself_and_no_space(tokenizer: HfTokenizer, pieces: list[str]) -> None:
    content = Content(tokenizer, Encoder(tokenizer))
    content.add(Text("The"))
    for piece in pieces:
        await content.settle()
        content.add(Text(piece))
    await content.settle()
    assert text_of(tokenizer, content.ids) == "The" + "".join(pieces)


async def test_texts_that_meet_are_encoded_together(tokenizer: HfTokenizer) -> None:
    content = Content(tokenizer, Encoder(tokenizer))
    for piece in ("The cap", "ital of Fr", "ance"):
        content.add(Text(piece))
    await content.settle()
    assert list(content.ids) == tokenizer.encode("The capital of France")


@given(text=TEXTS, choices=st.lists(TEXTS.filter(bool), min_size=1, max_size=4, unique=True))
async def test_each_path_of_a_junction_ends_the_text_with_its_choice(
    tokenizer: HfTokenizer, text: str, choices: list[str]
) -> None:
    content = Content(tokenizer, Encoder(tokenizer))
    content.add(Text("The " + text))
    junction = await content.junction(choices)
    whole = [[*junction.shared, *path] for path in junction.paths]
    assert all(junction.paths)
    assert [text_of(tokenizer, ids) for ids in whole] == ["The " + text + choice for choice in choices]
    assert whole == [tokenizer.encode("The " + text + choice) for choice in choices]


async def test_a_choice_that_melts_into_the_text_takes_its_last_token_along(tmp_path: Path) -> None:
    tokenizer = loaded(byte_level(), tmp_path)
    content = Content(tokenizer, Encoder(tokenizer))
    content.add(Text("The capital of Fr"))
    junction = await content.junction(["ance", "iday"])
    assert tokenizer.token_bytes(junction.paths[0][0]).startswith(b" Fr")


async def test_one_choice_may_go_on_from_another() -> None:
    content = Content(ByteTokenizer(), Encoder(ByteTokenizer()))
    content.add(Text("x"))
    junction = await content.junction(["a", "ab"])
    assert (junction.shared, junction.paths) == ([BOS, ord("x")], [[ord("a")], [ord("a"), ord("b")]])


class Blind(ByteTokenizer):
    """Does not see zero-width spaces."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return super().encode(text.replace("\u200b", ""), add_special_tokens=add_special_tokens)


async def test_a_choice_without_tokens_of_its_own_takes_the_texts_last_one() -> None:
    content = Content(Blind(), Encoder(Blind()))
    content.add(Text("x"))
    assert (await content.junction(["\u200b", "a"])).paths == [[ord("x")], [ord("x"), ord("a")]]


async def test_before_a_plain_text_stands_one_bos_however_it_grew() -> None:
    content = Content(ByteTokenizer(), Encoder(ByteTokenizer()))
    for piece in ("ab", "cd"):
        content.add(Text(piece))
        await content.settle()
        content.give(Given("x", (ord("x"),), ""))
    content.add(Text("ef"))
    await content.settle()
    assert list(content.ids) == [BOS, *b"abxcdxef"]


async def test_a_tail_is_encoded_with_what_follows_it(tmp_path: Path) -> None:
    tokenizer = loaded(byte_level(), tmp_path)
    content = Content(tokenizer, Encoder(tokenizer))
    content.add(Text("The"))
    await content.settle()
    content.give(Given(" cap", (), " cap"))
    content.add(Text("ital"))
    await content.settle()
    assert list(content.ids) == [*tokenizer.encode("The"), *tokenizer.encode(" capital")]


async def test_nothing_but_the_bos_stands_before_nothing() -> None:
    content = Content(ByteTokenizer(), Encoder(ByteTokenizer()))
    await content.settle()
    assert content.ids == (BOS,)


LONG_PIECES = st.lists(
    st.sampled_from([*CORPUS[:2], "é日🙂 ", " France", "ance", "\n\n", " ", "a b " * 300]), max_size=12
)


@settings(max_examples=30)
@given(pieces=LONG_PIECES, more=LONG_PIECES, choices=st.sets(st.sampled_from(["ance", " is", "\n", "日"]), min_size=1))
async def test_what_is_remembered_of_a_texts_beginning_changes_no_ids(
    tokenizer: HfTokenizer, pieces: list[str], more: list[str], choices: set[str]
) -> None:
    encoder = Encoder(tokenizer)
    for grown in (pieces, [*pieces, *more]):
        text = "".join(grown)
        ids = await encoder.encode(grown, at_start=True)
        assert list(ids) == tokenizer.encode(text, add_special_tokens=False)
        junction = await encoder.junction(grown, sorted(choices), at_start=True)
        assert [[*junction.shared, *path] for path in junction.paths] == [
            tokenizer.encode(text + choice, add_special_tokens=False) for choice in sorted(choices)
        ]


class Counting(ByteTokenizer):
    """Counts the characters that it encodes."""

    def __init__(self) -> None:
        self.characters = 0

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        self.characters += len(text)
        return super().encode(text, add_special_tokens=add_special_tokens)


async def test_a_long_beginning_is_encoded_once_for_all_that_goes_on_from_it() -> None:
    tokenizer = Counting()
    encoder = Encoder(tokenizer)
    few_shot = "a long beginning " * 200
    for question in ("one?", "two?", "three?"):
        content = Content(tokenizer, encoder)
        content.add(Text(few_shot))
        content.add(Text(question))
        for branch in (content.fork(), content.fork()):
            branch.add(Text(" yes or no"))
            await branch.junction(["A", "B", "C", "D"])
    assert tokenizer.characters < 3 * len(few_shot)  # and not 30 times


async def test_a_long_text_has_the_same_ids_as_a_short_one(tokenizer: HfTokenizer) -> None:
    content = Content(tokenizer, Encoder(tokenizer))
    text = "The capital of France. " * 1000
    content.add(Text(text))
    await content.settle()
    assert list(content.ids) == tokenizer.encode(text)
