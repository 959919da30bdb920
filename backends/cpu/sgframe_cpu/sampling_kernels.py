"""The compiled kernels that choose tokens and rank them. Knows arrays only; bfloat16 comes as uint16.

A row of logits is read in chunks of 32 tokens, which is one word of a mask. The largest key of each chunk comes first:
whatever is asked of a row (the largest, the k largest, those above a share of it) lies in few chunks, and only there single
tokens are looked at. Nothing is sorted but the few that are listed in order.

A token's *weight* is its probability in units of that of the likeliest, which weighs 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sgframe_cpu.atomics import array, integer
from sgframe_cpu.launch import Kernel, buffer
from sgframe_cpu.sampling_lanes import LANES, reaching, top_key
from sgframe_cpu.scalars import bits_of, exp, float_of, inlined, larger, piece, widen

_INVALID = -1
_INFINITE = np.int32(0x7F800000)
_FINITE = np.int32(1 - 0x7F800000)  # the least key of a finite logit
_FORBIDDEN = np.int32(-(2**31))  # less than any key
_ALL, _NONE, _LANE = np.int32(-1), np.int32(0), np.int32(1)
_ONE, _ZERO, _HALF = np.float32(1), np.float32(0), np.float32(0.5)
_VANISHING = np.float32(-87)

_FIRST_SHARE, _FURTHER = 2.0**-12, 2.0**-4
"""The nucleus is looked for among the tokens of at least this probability, and if it is larger, in steps, further down."""


@cache
def largest(element: type) -> Kernel:
    """The largest allowed logit of each row, the lower token among equals; -1 for a row that is not finite.

    Arguments: logits, words, output [n] int64; elements from row to row, chunks of a row, words of a row (0: all tokens are
    allowed).
    """
    size = np.dtype(element).itemsize

    def run(address: Any, begin: Any, end: Any) -> None:
        logits, stride, chunks, width = (
            integer(address, 0),
            integer(address, 3),
            integer(address, 4),
            integer(address, 5),
        )
        masks, output = buffer(address, 1, (end, width), np.int32), buffer(address, 2, (end,), np.int64)
        tops = np.empty(chunks, np.int32)
        for index in range(begin, end):
            row, mask = _row(logits + index * stride * size, chunks, element), masks[index]
            best, finite = _look(row, mask, tops)
            output[index] = _first(row, mask, tops, best) if finite else _INVALID

    return Kernel(run)


@cache
def draw(element: type) -> Kernel:
    """A token of each row as its draws say, the largest where the temperature is 0; -1 for a row that is not finite.

    Arguments as for ``largest``, then the draws [n, 5] float64: temperature, top-k, top-p, min-p, uniform.
    """
    size = np.dtype(element).itemsize

    def run(address: Any, begin: Any, end: Any) -> None:
        logits, stride, chunks, width = (
            integer(address, 0),
            integer(address, 3),
            integer(address, 4),
            integer(address, 5),
        )
        masks, output = buffer(address, 1, (end, width), np.int32), buffer(address, 2, (end,), np.int64)
        draws = buffer(address, 6, (end, 5), np.float64)
        tops, sums = np.empty(chunks, np.int32), np.empty(chunks, np.float32)
        ids, weights = np.empty(chunks * LANES, np.int32), np.empty(chunks * LANES, np.float32)
        for index in range(begin, end):
            row, mask = _row(logits + index * stride * size, chunks, element), masks[index]
            best, finite = _look(row, mask, tops)
            if not finite:
                output[index] = _INVALID
            elif draws[index, 0] == 0:
                output[index] = _first(row, mask, tops, best)
            else:
                most, scale = _logit(best), np.float32(1.0 / draws[index, 0])
                filtered = 0 < draws[index, 1] < row.size or draws[index, 2] < 1 or draws[index, 3] > 0
                output[index] = (
                    _draw_of_few(row, mask, tops, sums, ids, weights, best, most, scale, draws[index])
                    if filtered
                    else _draw_of_all(row, mask, sums, weights, most, scale, draws[index, 4])
                )

    return Kernel(run)


@cache
def rank(element: type) -> Kernel:
    """Log-softmax of one token of each row, and of the k likeliest, best first, the lower token among equals.

    Arguments: logits, tokens [n] int64, output [n] float32, likeliest [n, k] int64, theirs [n, k] float32; elements from row
    to row, chunks of a row, k.
    """
    size = np.dtype(element).itemsize

    def run(address: Any, begin: Any, end: Any) -> None:
        logits, stride, chunks, k = integer(address, 0), integer(address, 5), integer(address, 6), integer(address, 7)
        tokens, output = buffer(address, 1, (end,), np.int64), buffer(address, 2, (end,), np.float32)
        top_ids, top_values = buffer(address, 3, (end, k), np.int64), buffer(address, 4, (end, k), np.float32)
        tops, sums, everything = np.empty(chunks, np.int32), np.empty(chunks, np.float32), np.empty(0, np.int32)
        keys = np.empty(k, np.int32)
        for index in range(begin, end):
            row, token = _row(logits + index * stride * size, chunks, element), tokens[index]
            best, _ = _look(row, everything, tops)
            most = _logit(best)
            total = most + np.float32(np.log(_weigh(row, everything, sums, most, _ONE)))
            output[index] = widen(row[token // LANES, token % LANES]) - total
            if k > 0:
                _list(row, tops, _reached(tops, k, best), top_ids[index], keys)
                for i in range(k):
                    top_values[index, i] = _logit(keys[i]) - total

    return Kernel(run)


# --------------------------------------------------------------------------------------------------- scalars


@inlined
def _key(value: Any) -> Any:
    """The key of float32 ``value``; see ``sampling_lanes``."""
    bits = bits_of(value)
    return bits if bits >= 0 else np.int32(_FORBIDDEN - bits)


@inlined
def _logit(key: Any) -> Any:
    """The float32 whose key this is."""
    return float_of(key if key >= 0 else _FORBIDDEN - key)


@inlined
def _weight(logit: Any, most: Any, scale: Any) -> Any:
    power = (logit - most) * scale
    return exp(power) if power > _VANISHING else _ZERO


# -------------------------------------------------------------------------------------------------- all chunks


@inlined
def _row(address: Any, chunks: Any, element: Any) -> Any:
    return array(address, (chunks, LANES), element)


@inlined
def _word(mask: Any, chunk: Any) -> Any:
    """The allowed lanes of ``chunk``."""
    return mask[chunk] if len(mask) > 0 else _ALL


@inlined
def _at(row: Any, chunk: Any) -> Any:
    return row.ctypes.data + chunk * LANES * row.itemsize


@piece
def _look(row: Any, mask: Any, tops: Any) -> Any:
    """Fill ``tops`` with the largest allowed key of each chunk. Returns the largest of all; and whether it is finite and
    the row holds neither NaN nor +inf."""
    best, bad = _FORBIDDEN, _NONE
    for chunk in range(len(tops)):
        here = _at(row, chunk)
        bad |= reaching(here, _ALL, _INFINITE, row) | ~reaching(here, _ALL, np.int32(-_INFINITE), row)
        tops[chunk] = top_key(here, _word(mask, chunk), row)
        best = larger(best, tops[chunk])
    return best, bad == 0 and best >= _FINITE


@piece
def _weigh(row: Any, mask: Any, sums: Any, most: Any, scale: Any) -> Any:
    """Fill ``sums`` with the weight of the allowed tokens of each chunk. Returns the weight of all (float64)."""
    total = 0.0
    for chunk in range(len(sums)):
        word, weight, logits = _word(mask, chunk), _ZERO, row[chunk]
        if word == _ALL:  # for most chunks, and quicker
            for lane in range(LANES):
                weight += _weight(widen(logits[lane]), most, scale)
        elif word != _NONE:
            for lane in range(LANES):
                weight += _weight(widen(logits[lane]), most, scale) if (word >> np.int32(lane)) & _LANE else _ZERO
        sums[chunk] = weight
        total += np.float64(weight)
    return total


# -------------------------------------------------------------------------------------------------- few chunks


@piece
def _first(row: Any, mask: Any, tops: Any, best: Any) -> Any:
    """The first allowed token whose key is ``best``, which is one of ``tops``."""
    chunk, lane = 0, 0
    while tops[chunk] != best:
        chunk += 1
    lanes = reaching(_at(row, chunk), _word(mask, chunk), best, row)
    while not (lanes >> np.int32(lane)) & _LANE:
        lane += 1
    return chunk * LANES + lane


@piece
def _list(row: Any, tops: Any, floor: Any, ids: Any, keys: Any) -> None:
    """Fill ``ids`` and ``keys`` with the largest of ``row``, best first. None are less than ``floor``."""
    for i in range(len(keys)):
        keys[i] = _FORBIDDEN
    for chunk in range(len(tops)):
        if tops[chunk] >= floor:
            for lane in range(LANES):
                key, place = _key(widen(row[chunk, lane])), len(keys)
                while place > 0 and keys[place - 1] < key:
                    if place < len(keys):
                        ids[place], keys[place] = ids[place - 1], keys[place - 1]
                    place -= 1
                if place < len(keys):
                    ids[place], keys[place] = chunk * LANES + lane, key


@inlined
def _reached(keys: Any, k: Any, best: Any) -> Any:
    """A key that at least ``k`` of ``keys`` reach, and exactly k unless some are equal; less than any when there are fewer.
    ``best`` is the largest."""
    low, high = np.int64(_FORBIDDEN), np.int64(best)
    while low < high:
        middle = low + (high - low + 1) // 2
        threshold, reached = np.int32(middle), np.int32(0)
        for i in range(len(keys)):
            reached += np.int32(1) if keys[i] >= threshold else np.int32(0)
        low = middle if reached >= k else low
        high = middle if reached == k else (high if reached > k else middle - 1)
    return np.int32(low)


# -------------------------------------------------------------------------------------------------------- draws


@inlined
def _draw_of_all(row: Any, mask: Any, sums: Any, weights: Any, most: Any, scale: Any, uniform: Any) -> Any:
    """The token at ``uniform`` of the weight of all allowed ones, in their order."""
    total = _weigh(row, mask, sums, most, scale)
    chunk, target = _find(sums, len(sums), uniform * total)
    word = _word(mask, chunk)
    for lane in range(LANES):
        weights[lane] = _weight(widen(row[chunk, lane]), most, scale) if (word >> np.int32(lane)) & _LANE else _ZERO
    lane, _ = _find(weights, LANES, target)
    return chunk * LANES + lane


@inlined
def _draw_of_few(
    row: Any, mask: Any, tops: Any, sums: Any, ids: Any, weights: Any, best: Any, most: Any, scale: Any, draws: Any
) -> Any:
    """The token at the uniform number of the weight of those that top-k, then top-p, then min-p leave, in their order."""
    top_k, top_p, min_p, uniform = draws[1], draws[2], draws[3], draws[4]
    if 0 < top_k < row.size:
        count = _collect(row, mask, tops, larger(_FINITE, _reached(tops, top_k, best)), most, scale, ids, weights)
        count = _cut(ids, weights, count, top_k, 0.0)
        total = _amount(weights, count, _ZERO, 1.0)
    elif top_p < 1:
        total = _weigh(row, mask, sums, most, scale)
        count = _collect_nucleus(row, mask, tops, most, scale, ids, weights, top_p, min_p, total)
    else:
        count, total = _collect(row, mask, tops, _floor(min_p, most, scale), most, scale, ids, weights), 0.0
    if top_p < 1:
        count = _cut(ids, weights, count, top_p * total, 1.0)
    for i in range(count):
        weights[i] = weights[i] if weights[i] >= np.float32(min_p) else _ZERO
    place, _ = _find(weights, count, uniform * _amount(weights, count, _ZERO, 1.0))
    return ids[place]


@inlined
def _collect_nucleus(
    row: Any,
    mask: Any,
    tops: Any,
    most: Any,
    scale: Any,
    ids: Any,
    weights: Any,
    top_p: Any,
    min_p: Any,
    total: Any,
) -> Any:
    """Collect tokens among which are all that belong to the nucleus and weigh at least ``min_p``; how many."""
    least = larger((1.0 - top_p) / row.size, min_p / total)  # all that are less probable make up no more than 1 - top-p
    share, searching, count = _FIRST_SHARE, True, 0
    while searching:
        share = larger(share, least)
        count = _collect(row, mask, tops, _floor(share * total, most, scale), most, scale, ids, weights)
        searching = share > least and _amount(weights, count, _ZERO, 1.0) < top_p * total
        share *= _FURTHER
    return count


@inlined
def _floor(weight: Any, most: Any, scale: Any) -> Any:
    """A key that the logit of every token of ``weight`` reaches."""
    return _key(most + np.float32(np.log(0.5 * weight)) / scale)


@piece
def _find(weights: Any, count: Any, target: Any) -> Any:
    """Where the running sum of ``weights`` exceeds ``target``, and how much of that is left there."""
    place, passed, before = 0, 0.0, 0.0
    for i in range(count):
        if weights[i] > _ZERO and passed <= target:
            place, before = i, passed
        passed += weights[i]
    return place, target - before


@piece
def _collect(row: Any, mask: Any, tops: Any, floor: Any, most: Any, scale: Any, ids: Any, weights: Any) -> Any:
    """Fill ``ids`` and ``weights`` with the allowed tokens of at least key ``floor``, in their order; how many."""
    count = 0
    for chunk in range(len(tops)):
        if tops[chunk] >= floor:
            lanes = reaching(_at(row, chunk), _word(mask, chunk), floor, row)
            for lane in range(LANES):
                ids[count], weights[count] = chunk * LANES + lane, widen(row[chunk, lane])
                count += int((lanes >> np.int32(lane)) & _LANE)
    for i in range(count):
        weights[i] = _weight(weights[i], most, scale)
    return count


@piece
def _cut(ids: Any, weights: Any, count: Any, wanted: Any, each: Any) -> Any:
    """Keep the fewest tokens, heaviest first, that make up the amount ``wanted``, the lower ids among equals; how many.

    Bisects the bits of the weight that just belongs.
    """
    low, high = 0, 0x3F800001  # the bits of 0 and of what weighs just above 1
    while high - low > 1:
        middle = (low + high) // 2
        enough = _amount(weights, count, float_of(middle), each) >= wanted
        low, high = middle if enough else low, high if enough else middle
    last, kept = float_of(low), 0
    missing = wanted - _amount(weights, count, float_of(high), each)
    ties = np.ceil(missing / (each * np.float64(last) + 1.0 - each))
    for i in range(count):
        weight, equal = weights[i], weights[i] == last
        ids[kept], weights[kept] = ids[i], weight
        kept += 1 if weight > last or (equal and ties > 0) else 0
        ties -= 1.0 if equal else 0.0
    return kept


@piece
def _amount(weights: Any, count: Any, least: Any, each: Any) -> Any:
    """Of the ``weights`` of at least ``least``, their sum if ``each`` is 1.0, their number if it is 0.0."""
    total = 0.0
    for i in range(count):
        total += each * np.float64(weights[i]) + (1.0 - each) if weights[i] >= least else 0.0
    return total
