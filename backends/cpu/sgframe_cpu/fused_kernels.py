"""The compiled kernels of the small operations: one pass over the data each. Knows arrays only."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sgframe_cpu.atomics import integer
from sgframe_cpu.launch import Kernel, buffer
from sgframe_cpu.scalars import exp, inlined, narrow, widen

_ONE, _ZERO = np.float32(1), np.float32(0)
_HIGHEST = np.float32(87)


@cache
def add_rms_norm(element: type, width: int) -> Kernel:
    """Rows of ``width``. Arguments: x, residual (in place), weight, output, eps (float32)."""

    def run(address: Any, begin: Any, end: Any) -> None:
        x, residual = buffer(address, 0, (end, width), element), buffer(address, 1, (end, width), element)
        weight, output = buffer(address, 2, (width,), element), buffer(address, 3, (end, width), element)
        eps = buffer(address, 4, (1,), np.float32)[0]
        for row in range(begin, end):
            added, total = x[row], residual[row]
            for d in range(width):
                total[d] = narrow(widen(total[d]) + widen(added[d]), total)
            _normalise(total, weight, output[row], eps, width)

    return Kernel(run)


@cache
def rms_norm(element: type, width: int) -> Kernel:
    """Rows of ``width``. Arguments: x, weight, output, eps (float32)."""

    def run(address: Any, begin: Any, end: Any) -> None:
        x, weight = buffer(address, 0, (end, width), element), buffer(address, 1, (width,), element)
        output, eps = buffer(address, 2, (end, width), element), buffer(address, 3, (1,), np.float32)[0]
        for row in range(begin, end):
            _normalise(x[row], weight, output[row], eps, width)

    return Kernel(run)


@cache
def silu_mul(element: type, width: int) -> Kernel:
    """Rows of gate and up side by side, ``width`` each. Arguments: gate_up, output."""

    def run(address: Any, begin: Any, end: Any) -> None:
        gate_up, output = buffer(address, 0, (end, 2 * width), element), buffer(address, 1, (end, width), element)
        for row in range(begin, end):
            gate, up, target = gate_up[row, :width], gate_up[row, width:], output[row]
            for d in range(width):
                x = widen(gate[d])
                power = _HIGHEST if -x > _HIGHEST else -x
                target[d] = narrow(x / (_ONE + exp(power)) * widen(up[d]), target)

    return Kernel(run)


@cache
def add(element: type, width: int) -> Kernel:
    """Rows of ``width``. Arguments: x, sum (in place)."""

    def run(address: Any, begin: Any, end: Any) -> None:
        x, total = buffer(address, 0, (end, width), element), buffer(address, 1, (end, width), element)
        for row in range(begin, end):
            added, into = x[row], total[row]
            for d in range(width):
                into[d] = narrow(widen(into[d]) + widen(added[d]), into)

    return Kernel(run)


@cache
def embed(element: type, width: int) -> Kernel:
    """Rows of ``width``. Arguments: tokens, weight, output; the size of the vocabulary."""

    def run(address: Any, begin: Any, end: Any) -> None:
        tokens, output = buffer(address, 0, (end,), np.int64), buffer(address, 2, (end, width), element)
        weight = buffer(address, 1, (integer(address, 3), width), element)
        for row in range(begin, end):
            source, target = weight[tokens[row]], output[row]
            for d in range(width):
                target[d] = source[d]

    return Kernel(run)


@cache
def angles(pairs: int) -> Kernel:
    """Rows of ``pairs`` angles. Arguments: positions, frequencies, scaling (float32), cosines, sines."""

    def run(address: Any, begin: Any, end: Any) -> None:
        positions, frequencies = buffer(address, 0, (end,), np.int64), buffer(address, 1, (pairs,), np.float32)
        scaling = buffer(address, 2, (1,), np.float32)[0]
        cosines, sines = buffer(address, 3, (end, pairs), np.float32), buffer(address, 4, (end, pairs), np.float32)
        for row in range(begin, end):
            position = np.float32(positions[row])
            for d in range(pairs):
                angle = position * frequencies[d]
                cosines[row, d], sines[row, d] = np.cos(angle) * scaling, np.sin(angle) * scaling

    return Kernel(run)


@cache
def rotate_and_store(element: type, dim: int, normed: bool) -> Kernel:
    """Rows of tokens with heads of ``dim``. Arguments: qkv, cosines, sines, slots, keys, values, query; heads, KV heads,
    slots of the pool; and if ``normed`` the weights of the query's and the key's norm, and eps (float32)."""

    def run(address: Any, begin: Any, end: Any) -> None:
        heads, kv_heads, pool = integer(address, 7), integer(address, 8), integer(address, 9)
        qkv = buffer(address, 0, (end, heads + 2 * kv_heads, dim), element)
        cosines = buffer(address, 1, (end, dim // 2), np.float32)
        sines = buffer(address, 2, (end, dim // 2), np.float32)
        slots = buffer(address, 3, (end,), np.int64)
        keys, values = (
            buffer(address, 4, (pool, kv_heads, dim), element),
            buffer(address, 5, (pool, kv_heads, dim), element),
        )
        query = buffer(address, 6, (end, heads, dim), element)
        for row in range(begin, end):
            slot = slots[row]
            if normed:
                eps = buffer(address, 12, (1,), np.float32)[0]
                for head in range(heads):
                    _normalise(qkv[row, head], buffer(address, 10, (dim,), element), qkv[row, head], eps, dim)
                for head in range(heads, heads + kv_heads):
                    _normalise(qkv[row, head], buffer(address, 11, (dim,), element), qkv[row, head], eps, dim)
            for head in range(heads):
                _rotate(qkv[row, head], cosines[row], sines[row], query[row, head], dim)
            for head in range(kv_heads):
                _rotate(qkv[row, heads + head], cosines[row], sines[row], keys[slot, head], dim)
                source, target = qkv[row, heads + kv_heads + head], values[slot, head]
                for d in range(dim):
                    target[d] = source[d]

    return Kernel(run)


@inlined
def _normalise(x: Any, weight: Any, output: Any, eps: Any, width: Any) -> None:
    squares = _ZERO
    for d in range(width):
        value = widen(x[d])
        squares += value * value
    factor = _ONE / np.sqrt(squares / np.float32(width) + eps)
    for d in range(width):
        output[d] = narrow(widen(x[d]) * factor * widen(weight[d]), output)


@inlined
def _rotate(x: Any, cosines: Any, sines: Any, output: Any, dim: Any) -> None:
    half = dim // 2
    for d in range(half):
        first, second = widen(x[d]), widen(x[d + half])
        output[d] = narrow(first * cosines[d] - second * sines[d], output)
        output[d + half] = narrow(second * cosines[d] + first * sines[d], output)
