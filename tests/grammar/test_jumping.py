"""Jump-forward: forced tokens are those that the tokenizer writes, whatever comes after."""

from __future__ import annotations

import json
from functools import cache

import pytest
from schema_data import real_schemas
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.front.vocabulary import vocabulary_of
from sgframe.interfaces.grammar import CompiledGrammar, Matcher, Vocabulary
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.grammar import CompressedFsm
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource
from sgframe_hf.token_bytes import TokenBytes

BYTE_LEVEL = {"type": "ByteLevel"}


def bpe(*merges: str) -> Tokenizer:
    """A byte-level tokenizer that merges pairs (written as ``a b``), the first ones first, across whole texts."""
    pairs = [(left, right) for left, right in map(str.split, merges)]
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in pairs)]
    tokenizer = Tokenizer(models.BPE({piece: token for token, piece in enumerate(pieces)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizer


class Written:
    """An output under way: a choice, and what is written of it."""

    def __init__(self, tokenizer: Tokenizer, *choices: str, known: bool = True) -> None:
        added = {token: text.content for token, text in tokenizer.get_added_tokens_decoder().items()}
        self.tokens = TokenBytes(BYTE_LEVEL, tokenizer.get_vocab(), added).table
        for token in added:
            self.tokens[token] = b""
        vocabulary = Vocabulary(self.tokens, (), tokenizer.to_str() if known else "")
        fsm = CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=vocabulary)
        self.matcher = fsm.load(fsm.compile(Constraint("choice", json.dumps(choices))).data).matcher()

    def write(self, *pieces: bytes) -> Written:
        for piece in pieces:
            assert self.matcher.accept(self.tokens.index(piece))
        return self

    @property
    def forced(self) -> list[bytes]:
        return [self.tokens[token] for token in self.matcher.forced_tokens()]


def test_all_that_is_certain_is_forced_in_the_tokenizers_own_tokens() -> None:
    assert Written(bpe("a b", "c d"), "abcdd").forced == [b"ab", b"cd", b"d"]


def test_it_ends_where_the_output_may_stop() -> None:
    assert Written(bpe(), "ab", "abc").write(b"a", b"b").forced == []


def test_asking_does_not_advance() -> None:
    written = Written(bpe(), "ab")
    assert written.forced == written.forced == [b"a", b"b"]


def test_a_token_that_a_longer_one_could_take_in_is_held_back() -> None:
    assert Written(bpe("b c"), "abc", "abd").forced == [b"a"]
    assert Written(bpe("a b", "b c"), "abc", "abd").forced == []


def test_a_longer_token_that_the_grammar_forbids_holds_nothing_back() -> None:
    assert Written(bpe("a b", "b c"), "abd", "abe").forced == [b"ab"]


def test_tokens_that_change_when_more_is_written_are_held_back() -> None:
    tokenizer = bpe("} ,", "} }", '" }')
    assert tokenizer.encode('"}}').tokens == ['"', "}}"]
    assert tokenizer.encode('"}},').tokens == ['"}', "},"]
    assert Written(tokenizer, '"}},', '"}}]').forced == []


def test_bytes_that_end_inside_a_character_are_held_back() -> None:
    assert Written(bpe(), "日", "旧").forced == []
    assert Written(bpe(), "a日", "a旧").forced == [b"a"]


def test_the_rest_of_a_character_is_forced_after_its_beginning() -> None:
    assert Written(bpe(), "日", "月").write(b"\xe6", b"\x97").forced == [b"\xa5"]


def test_after_tokens_that_the_tokenizer_would_not_have_written_nothing_is_forced() -> None:
    assert Written(bpe("a b"), "abc").write(b"a").forced == []
    assert Written(bpe("a b"), "abc").write(b"ab").forced == [b"c"]


def test_the_name_of_a_special_token_is_mere_text() -> None:
    tokenizer = bpe()
    tokenizer.add_special_tokens(["<s>"])
    assert Written(tokenizer, "a<s>").forced == [b"a", b"<", b"s", b">"]


def test_without_a_tokenizer_nothing_is_forced() -> None:
    assert Written(bpe(), "ab", known=False).forced == []


def test_a_tokenizer_that_changes_the_text_forces_nothing() -> None:
    tokenizer = bpe()
    tokenizer.normalizer = normalizers.Lowercase()
    assert Written(tokenizer, "aB").forced == []


# ------------------------------------------------------------------------------------------------ real schemas


@cache
def smollm() -> tuple[CompressedFsm, Tokenizer]:
    source = HfSource(HfSettings())
    checkpoint = source.resolve("smollm2-135m", lambda what, done, total: None)
    vocabulary = vocabulary_of(source.tokenizer(checkpoint), checkpoint.vocab_size, checkpoint.eos_ids)
    return CompressedFsm(CompressedFsmSettings(), vocabulary=vocabulary), Tokenizer.from_str(vocabulary.tokenizer_json)


def compiled(schema: object) -> CompiledGrammar | None:
    fsm, _ = smollm()
    try:
        return fsm.load(fsm.compile(Constraint("json_schema", json.dumps(schema))).data)
    except RequestError:
        return None


def jumps(matcher: Matcher, tokens: list[int]) -> tuple[int, list[list[int]]]:
    """How many of ``tokens`` are forced along the way, and jumps that are not what the tokenizer wrote."""
    written, forced, wrong = 0, 0, []
    while written < len(tokens):
        jump = list(matcher.forced_tokens())
        if jump != tokens[written : written + len(jump)]:
            wrong.append(jump)
            jump = []
        forced += len(jump)
        jump = jump or tokens[written : written + 1]
        assert all(map(matcher.accept, jump))
        written += len(jump)
    return forced, wrong


def forced_share(schemas: list[dict[str, object]]) -> tuple[int, int, int]:
    """Over all valid instances: tokens, how many are forced, and how many jumps are not canonical."""
    _, tokenizer = smollm()
    total, count, wrong = 0, 0, 0
    for entry in schemas:
        grammar = compiled(entry["schema"])
        for instance in entry["valid"] if grammar else ():  # type: ignore[attr-defined]
            tokens = tokenizer.encode(json.dumps(instance, ensure_ascii=False)).ids
            forced, others = jumps(grammar.matcher(), tokens)  # type: ignore[union-attr]
            total, count, wrong = total + len(tokens), count + forced, wrong + len(others)
    return total, count, wrong


def test_function_calls_are_forced_to_a_large_part_and_canonically() -> None:
    calls = [entry for entry in real_schemas() if entry["group"] in ("BFCL", "Glaiveai2K")]
    total, forced, wrong = forced_share(calls)
    assert wrong == 0
    assert forced > 0.40 * total


@pytest.mark.slow
def test_over_all_schemas_a_fifth_is_forced_and_one_in_ten_thousand_is_not_canonical() -> None:
    total, forced, wrong = forced_share(real_schemas())
    print(f"{forced} of {total} tokens are forced, {wrong} jumps are not canonical")
    assert forced > 10_000
    assert forced > 0.20 * total
    assert wrong <= forced // 10_000
