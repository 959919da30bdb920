"""The bytes of a token: joined, they are what the tokenizers library decodes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from sgframe.errors import ModelError
from sgframe_hf.token_bytes import TokenBytes

TEXTS = [
    "Hello world, hello there! 12345 + 678 = 13023",
    "  two  spaces\tand\ttabs\n\nand lines\n",
    "日本語 と 中文, żółw, naïve café, 🙂👨‍👩‍👧",
    "def f(x):\n    return x ** 2  # code",
]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|end|>"])
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_tokens([AddedToken("two words", normalized=False)])
    return tokenizer


def sentencepiece_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    names = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=names, limit_alphabet=60)
    tokenizer.train_from_iterator(TEXTS, trainer)
    document = json.loads(tokenizer.to_str())  # byte pieces are no added tokens in a real file
    document["added_tokens"] = [added for added in document["added_tokens"] if added["id"] < 2]
    return Tokenizer.from_str(json.dumps(document))


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def table(tokenizer: Tokenizer) -> TokenBytes:
    added = {token: text.content for token, text in tokenizer.get_added_tokens_decoder().items()}
    return TokenBytes(json.loads(tokenizer.to_str())["decoder"], tokenizer.get_vocab(), added)


KINDS = {make.__name__: (tokenizer := make(), table(tokenizer)) for make in (byte_level, sentencepiece_bpe, unigram)}


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.one_of(st.text(), st.sampled_from(TEXTS), st.text(" ab<0x4E>|end two words▁\n")))
def test_the_joined_bytes_of_tokens_are_the_decoded_text(kind: str, text: str) -> None:
    tokenizer, bytes_of = KINDS[kind]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    joined = b"".join(bytes_of.table[token] for token in ids).decode("utf-8", "replace")
    if bytes_of.strips_leading_space:
        joined = joined.removeprefix(" ")
    assert joined == tokenizer.decode(ids, skip_special_tokens=False)


def test_a_byte_level_token_may_hold_part_of_a_character() -> None:
    tokenizer, bytes_of = KINDS["byte_level"]
    pieces = [bytes_of.table[token] for token in tokenizer.encode("ß").ids]
    assert pieces == [b"\xc3", b"\x9f"]


def test_a_sentencepiece_byte_token_is_that_byte() -> None:
    tokenizer, bytes_of = KINDS["sentencepiece_bpe"]
    assert bytes_of.table[tokenizer.token_to_id("<0xE2>")] == b"\xe2"


def test_a_special_token_gives_its_name() -> None:
    tokenizer, bytes_of = KINDS["byte_level"]
    assert bytes_of.table[tokenizer.token_to_id("<|end|>")] == b"<|end|>"


def test_an_added_token_that_is_not_ascii_is_spelled_literally() -> None:
    bytes_of = TokenBytes({"type": "ByteLevel"}, {"Ã": 0, "é": 1}, {1: "é"})
    assert bytes_of.table == [b"\xc3", "é".encode()]


def test_an_id_without_a_token_has_no_bytes() -> None:
    assert TokenBytes({"type": "ByteLevel"}, {"a": 0, "b": 2}, {}).table == [b"a", b"", b"b"]


@pytest.mark.parametrize(("kind", "strips"), [("byte_level", False), ("sentencepiece_bpe", True), ("unigram", True)])
def test_sentencepiece_drops_the_space_it_put_in_front(kind: str, strips: bool) -> None:
    assert KINDS[kind][1].strips_leading_space is strips


@pytest.mark.parametrize(
    ("decoder", "word"),
    [
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece"),
        ({"type": "BPEDecoder", "suffix": "</w>"}, "BPEDecoder"),
        ({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "CTC"}]}, "CTC"),
        ({"type": "Strip", "content": " ", "start": 1, "stop": 0}, "Strip"),
        (None, "no decoder"),
    ],
)
def test_a_decoder_that_looks_at_neighbours_is_refused_by_name(decoder: dict[str, object] | None, word: str) -> None:
    with pytest.raises(ModelError, match=word):
        TokenBytes(decoder, {"a": 0}, {})
