"""Reading traces: what is understood, what tokens it becomes, and which line is at fault when it is not."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sgframe.errors import ConfigError
from sgframe_simulator.trace import Trace
from sgframe_simulator.trace_files import load_trace

MOONCAKE = '{"timestamp": %d, "input_length": %d, "output_length": 3, "hash_ids": %s}\n'
BAILIAN = {
    "chat_id": 7,
    "parent_chat_id": -1,
    "timestamp": 61.5,
    "input_length": 30,
    "output_length": 4,
    "type": "text",
    "turn": 1,
    "hash_ids": [5, 6],
}


def written(folder: Path, text: str | bytes, name: str = "trace.jsonl") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_a_mooncake_line_has_milliseconds_and_a_shorter_last_block(tmp_path: Path) -> None:
    text = MOONCAKE % (1000, 1500, "[40, 41, 42]") + MOONCAKE % (4000, 1024, "[40, 43]")
    trace = load_trace(written(tmp_path, text))
    assert (len(trace), trace.block) == (2, 512)
    assert trace.arrivals.tolist() == [0, 3]
    assert trace.input_lengths.tolist() == [1500, 1024]
    assert trace.output_lengths.tolist() == [3, 3]
    assert [trace.blocks_of(0).tolist(), trace.blocks_of(1).tolist()] == [[0, 1, 2], [0, 3]]


def test_a_bailian_line_has_seconds_and_blocks_of_16(tmp_path: Path) -> None:
    later = BAILIAN | {"chat_id": 8, "parent_chat_id": 7, "timestamp": 63, "turn": 2, "hash_ids": [5, 9]}
    trace = load_trace(written(tmp_path, json.dumps(BAILIAN) + "\n" + json.dumps(later)))
    assert trace.block == 16
    assert trace.arrivals.tolist() == [0, 1.5]
    assert trace.blocks.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_trace_is_known_by_its_bytes(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    assert len(load_trace(written(tmp_path, pack(MOONCAKE.encode() % (0, 600, b"[1, 2]")), "trace"))) == 1


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    assert len(load_trace(written(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()))) == 1


def test_the_recorded_traces_tell_their_block_sizes(conversation: Trace, agents: Trace) -> None:
    assert (len(conversation), conversation.block, int(conversation.input_lengths.sum())) == (12031, 512, 144793823)
    assert (len(agents), agents.block, int(agents.input_lengths.sum())) == (1121, 64, 39890547)


# -------------------------------------------------------------------------------------------------- tokens


def test_prompts_share_tokens_exactly_as_far_as_they_share_blocks(trace_of: Callable[..., Trace]) -> None:
    trace = trace_of((0, 10, 1, [70, 71, 72]), (0, 12, 1, [70, 71, 73]))
    assert trace.prompt(0).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert trace.prompt(1).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 3, 3, 3, 3]


def test_the_end_of_a_prompt_without_an_id_is_its_own(trace_of: Callable[..., Trace]) -> None:
    trace = trace_of((0, 6, 1, [70]), (0, 6, 1, [70]))
    assert trace.prompt(0).tolist() == [0, 0, 0, 0, 1, 1]
    assert trace.prompt(1).tolist() == [0, 0, 0, 0, 2, 2]


def test_the_first_requests_keep_their_blocks(trace_of: Callable[..., Trace]) -> None:
    trace = trace_of((0, 4, 1, [1]), (5, 8, 2, [1, 2]), (9, 4, 3, [3])).first(2)
    assert len(trace) == 2
    assert trace.prompt(1).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert np.diff(trace.starts).tolist() == [1, 2]


# -------------------------------------------------------------------------------------------------- bad input

GOOD = MOONCAKE % (0, 600, "[1, 2]")
SHORT = '{"timestamp": 0, "input_length": 9, "hash_ids": [1]}'
WIDE = MOONCAKE % (0, 700, "[1, 2]") + MOONCAKE % (0, 1500, "[1, 2, 3, 4]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "{nonsense", "line 2: JSON is malformed"),
        (GOOD + "[1]\n", "line 2: Expected `object`, got `array`"),
        (GOOD + SHORT, "line 2: Object missing required field `output_length`"),
        (GOOD + MOONCAKE % (0, 0, "[1]"), "line 2: Expected `int` >= 1 - at `$.input_length`"),
        (GOOD + MOONCAKE % (-5, 9, "[1]"), "line 2: Expected `float` >= 0.0 - at `$.timestamp`"),
        (GOOD + MOONCAKE % (10**16, 9, "[1]"), "line 2: Expected `float` <= 1000000000000000.0 - at `$.timestamp`"),
        (
            GOOD + MOONCAKE % (0, 600, "[3, 2]"),
            "line 2: block 2 comes after 3, and came after 1 above: an id stands for a block and all that comes before it",
        ),
        (GOOD + MOONCAKE % (0, 600, "[2, 4]"), "line 2: block 2 comes first, and came after 1 above"),
        (GOOD + MOONCAKE % (0, 600, "[5, 5]"), "line 2: block 5 comes after 5, and came first above"),
        (GOOD + MOONCAKE % (0, 9, "[]"), "line 2: Expected `array` of length >= 1 - at `$.hash_ids`"),
        (GOOD + MOONCAKE % (0, 9, '["a"]'), "line 2: Expected `int`, got `str` - at `$.hash_ids[0]`"),
        (
            GOOD + "\n" + MOONCAKE % (0, 5000, "[1, 2]"),
            "line 3: 2 hash_ids for 5000 tokens need blocks of another size",
        ),
        (GOOD + json.dumps(BAILIAN | {"output_length": -1}), "line 2: Expected `int` >= 0 - at `$.output_length`"),
        ("\n\n", "holds no requests: give a trace with one JSON object a line"),
        (b"\xfd7zXZ\x00 torn", "cannot be decompressed"),
        (b"\x1f\x8b torn", "cannot be decompressed"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-12], "cannot be decompressed"),
        (WIDE, "may have 301 to 499 tokens: say how many with --block"),
    ],
)
def test_a_trace_that_is_not_valid_is_refused_whole(tmp_path: Path, text: str | bytes, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_trace(file)
    assert str(caught.value).startswith(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.jsonl cannot be read: No such file or directory"):
        load_trace(tmp_path / "absent.jsonl")


def test_a_block_size_that_does_not_fit_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1: 2 hash_ids for 600 tokens do not fit blocks of 64 tokens"):
        load_trace(written(tmp_path, GOOD), block=64)
