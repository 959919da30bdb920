"""Reads trace files, plain or compressed, and checks every line. A file is read whole or not at all."""

from __future__ import annotations

import gzip
import lzma
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from sgframe.errors import ConfigError
from sgframe_simulator.journal_traces import BLOCK, is_journal, load_journal
from sgframe_simulator.trace import Trace

USUAL_BLOCKS = (512, 64, 16)
"""Block sizes of the published traces: taken first where the lengths leave a choice."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Time = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
"""Milliseconds since 1970 are well below; far above, a second more makes no difference to a float."""
BlockIds = Annotated[list[int], msgspec.Meta(min_length=1)]


class MooncakeLine(msgspec.Struct):
    """A request of Mooncake's traces (Qin et al., FAST'25) and of those that took over its fields; times in ms."""

    timestamp: Time
    input_length: Positive
    output_length: Count
    hash_ids: BlockIds

    @property
    def seconds(self) -> float:
        return self.timestamp / 1000


class BailianLine(msgspec.Struct):
    """A request of the Qwen-Bailian traces (Wang et al., ATC'25): a turn of a chat, in blocks of 16 tokens; times in s."""

    chat_id: int
    parent_chat_id: int
    timestamp: Time
    turn: Count
    input_length: Positive
    output_length: Count
    hash_ids: BlockIds

    @property
    def seconds(self) -> float:
        return self.timestamp


Line = MooncakeLine | BailianLine


class Numbered(NamedTuple):
    """A line and its number in the file, from 1."""

    number: int
    line: Line


def load_trace(path: Path, block: int | None = None) -> Trace:
    """Read a trace: a journal of ours, or Mooncake or Qwen-Bailian JSON lines, plain, ``.gz`` or ``.xz``.

    ``block`` is in tokens; None tells it from the lengths. Raises ConfigError with the file, the line and what is wrong.
    """
    try:
        if is_journal(path):
            return load_journal(path, block or BLOCK)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    lines = list(_decoded(path, _text_lines(path)))
    if not lines:
        raise ConfigError(f"{path} holds no requests: give a trace with one JSON object a line")
    size = block or _block_size(path, lines)
    for number, line in lines:
        if not _fits(line, size):
            raise _fault(path, number, f"{_lengths(line)} do not fit blocks of {size} tokens")
    _require_one_path_each(path, lines)
    return _trace(size, sorted((line for _, line in lines), key=lambda line: line.seconds))  # later ids arrive later


def _text_lines(path: Path) -> list[bytes]:
    try:
        data = path.read_bytes()
        if data.startswith(b"\xfd7zXZ\x00"):
            data = lzma.decompress(data)
        elif data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be decompressed: {error}; fetch or pack it again") from error
    return data.removeprefix(BOM_UTF8).split(b"\n")


def _decoded(path: Path, texts: Sequence[bytes]) -> Iterator[Numbered]:
    """Every line that is not blank. The first tells the format of all."""
    decoder: msgspec.json.Decoder[Line] | None = None
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            if decoder is None:
                fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
                decoder = msgspec.json.Decoder(BailianLine if "chat_id" in fields else MooncakeLine)
            yield Numbered(number, decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _fault(path, number, str(error)) from None


def _block_size(path: Path, lines: Sequence[Numbered]) -> int:
    """The block size that all lengths fit, with or without an id for a last block that is not whole."""
    if isinstance(lines[0].line, BailianLine):
        return 16
    least, most = 1, max(line.input_length for _, line in lines)
    for number, line in lines:
        length, count = line.input_length, len(line.hash_ids)
        low = max(least, length // (count + 1) + 1)
        high = min(most, (length - 1) // (count - 1)) if count > 1 else most
        if low > high:
            reason = f"{_lengths(line)} need blocks of another size than the lines before, {least} to {most} tokens"
            raise _fault(path, number, reason)
        least, most = low, high
    for size in USUAL_BLOCKS:
        if least <= size <= most:
            return size
    if least == most:
        return least
    raise ConfigError(f"{path}: its blocks may have {least} to {most} tokens: say how many with --block")


def _fits(line: Line, block: int) -> bool:
    """Whether there is an id for every block, or for every whole one."""
    return len(line.hash_ids) in (line.input_length // block, -(-line.input_length // block))


def _require_one_path_each(path: Path, lines: Sequence[Numbered]) -> None:
    """Raise ConfigError where an id follows another than it did above."""
    before: dict[int, int | None] = {}
    for number, line in lines:
        for name, previous in zip(line.hash_ids, [None, *line.hash_ids], strict=False):
            if (known := before.setdefault(name, previous)) != previous:
                reason = f"block {name} comes {_place(previous)}, and came {_place(known)} above"
                raise _fault(path, number, f"{reason}: an id stands for a block and all that comes before it")


def _place(previous: int | None) -> str:
    return "first" if previous is None else f"after {previous}"


def _trace(block: int, lines: Sequence[Line]) -> Trace:
    numbers: dict[int, int] = {}
    blocks = [numbers.setdefault(name, len(numbers)) for line in lines for name in line.hash_ids]
    arrivals = np.array([line.seconds for line in lines])
    return Trace(
        block=block,
        arrivals=arrivals - arrivals.min(),
        input_lengths=np.array([line.input_length for line in lines]),
        output_lengths=np.array([line.output_length for line in lines]),
        blocks=np.array(blocks, dtype=np.int32),
        starts=np.cumsum([0, *(len(line.hash_ids) for line in lines)]),
        distinct=len(numbers),
    )


def _lengths(line: Line) -> str:
    return f"{len(line.hash_ids)} hash_ids for {line.input_length} tokens"


def _fault(path: Path, number: int, reason: str) -> ConfigError:
    return ConfigError(f"{path}, line {number}: {reason}")
