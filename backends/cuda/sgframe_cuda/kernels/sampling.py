"""Top-k, top-p and min-p sampling by inverting the cumulative distribution, without a sort.

A weight is exp((logit - largest) / temperature), at most 1. Its bits, read as an integer, are in the order of weights, so
that thresholds are found by bisection on them. The mass of weights is counted in units of 2^-40, and what is lighter has
none: integers add up to the same whatever the order. Ties go to the lower token id.

One program takes one row. ``survey`` finds the largest logit and the total, and puts what top-k and top-p may keep into a
short list; ``choose`` bisects on this list (or, where it does not hold enough, on the row) and inverts on the row.
"""

import triton
import triton.language as tl

UNITS = tl.constexpr(2.0**40)
LIGHTEST = tl.constexpr(2.0**-40)
LIGHTEST_BITS = tl.constexpr((127 - 40) << 23)
BEYOND_BITS = tl.constexpr((127 << 23) + 1)
"""No weight's bits reach these."""
COARSE_BITS = tl.constexpr(2**18)
"""Bits this far apart stand for weights 1/32 to 1/64 apart."""


@triton.jit
def _load(logits: tl.tensor, start: tl.tensor, length: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    places = start + tl.arange(0, BLOCK)
    return tl.load(logits + places, mask=places < length, other=-float("inf"))


@triton.jit
def _weights(values: tl.tensor, largest: tl.tensor, temperature: tl.tensor) -> tl.tensor:
    """Of logits ``values``; 0 for what is lighter than a unit and what is not a number."""
    weights = tl.exp((values - largest) / temperature)
    return tl.where(weights >= LIGHTEST, weights, 0.0)


@triton.jit
def _bits(weights: tl.tensor) -> tl.tensor:
    return weights.to(tl.int32, bitcast=True)


@triton.jit
def _mass(weights: tl.tensor) -> tl.tensor:
    return (weights * UNITS).to(tl.int64)


@triton.jit
def _limit(top_k: tl.tensor, vocab: tl.tensor) -> tl.tensor:
    """How many tokens top-k keeps; 0 for all."""
    return tl.where(top_k < vocab, top_k, 0)


@triton.jit
def _nucleus(top_p: tl.tensor, total: tl.tensor) -> tl.tensor:
    """The least mass of the nucleus, of ``total``."""
    return tl.maximum(tl.ceil(top_p.to(tl.float64) * total.to(tl.float64)).to(tl.int64), 1)


# ------------------------------------------------------------------------------------------------------- survey


@triton.jit
def _coarse_threshold(bits: tl.tensor, amounts: tl.tensor, need: tl.tensor) -> tl.tensor:
    """Bits reached by ``need`` of the sum of ``amounts`` [BLOCK], nearly the largest such; at least LIGHTEST_BITS."""
    low = tl.full((), LIGHTEST_BITS, tl.int32)
    high = tl.full((), BEYOND_BITS, tl.int32)
    while high - low > COARSE_BITS:
        middle = (low + high) // 2
        reached = tl.sum(tl.where(bits >= middle, amounts, 0)) >= need
        low = tl.where(reached, middle, low)
        high = tl.where(reached, high, middle)
    return low


@triton.jit
def _shorten(
    logits: tl.tensor,
    short: tl.tensor,
    largest: tl.tensor,
    temperature: tl.tensor,
    low: tl.tensor,
    vocab: tl.tensor,
    CAPACITY: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Put the logits whose weights' bits reach ``low`` into ``short``; how many there are, and their mass."""
    count = tl.full((), 0, tl.int32)
    masses = tl.zeros((BLOCK,), tl.int64)
    for start in range(0, vocab, BLOCK):
        values = _load(logits, start, vocab, BLOCK)
        weights = _weights(values, largest, temperature)
        chosen = _bits(weights) >= low
        places = count + tl.cumsum(chosen.to(tl.int32)) - 1
        tl.store(short + places, values, mask=chosen & (places < CAPACITY))
        count += tl.sum(chosen.to(tl.int32))
        masses += _mass(tl.where(chosen, weights, 0.0))
    return count, tl.sum(masses)


@triton.jit
def survey(
    logits: tl.tensor,
    temperatures: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    min_ps: tl.tensor,
    largests: tl.tensor,
    totals: tl.tensor,
    shorts: tl.tensor,
    lengths: tl.tensor,
    leasts: tl.tensor,
    vocab: tl.tensor,
    stride: tl.tensor,
    CAPACITY: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Each row's largest logit, its total mass (of what min-p keeps, if no other filter is on) and its short list.

    ``shorts`` [rows, CAPACITY] hold the ``lengths`` [rows] logits whose weights' bits reach ``leasts`` [rows]. Length 0 says
    to use the row itself.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    temperature, top_p = tl.load(temperatures + row), tl.load(top_ps + row)
    top_k = _limit(tl.load(top_ks + row), vocab)
    filtered = (top_k > 0) | (top_p < 1)
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, vocab, BLOCK):
        highest = tl.maximum(highest, _load(logits, start, vocab, BLOCK))
    largest = tl.max(highest)
    floor = tl.where(filtered, 0.0, tl.load(min_ps + row))
    masses = tl.zeros((BLOCK,), tl.int64)
    for start in range(0, vocab, BLOCK):
        weights = _weights(_load(logits, start, vocab, BLOCK), largest, temperature)
        masses += _mass(tl.where(weights >= floor, weights, 0.0))
    total = tl.sum(masses)
    tl.store(largests + row, largest)
    tl.store(totals + row, total)
    if filtered:
        # ``highest`` are tokens of the row, most of the first among them. If they satisfy the filter by themselves, so does
        # all that is as large; if not, we take what reaches 3/4 of them (of a large vocabulary about 1.4 · BLOCK tokens).
        wanted = _nucleus(top_p, total)
        weights = _weights(highest, largest, temperature)
        by_mass = (top_k == 0) & (tl.sum(_mass(weights)) >= wanted)
        reach = tl.where((top_k > 0) & (top_k <= BLOCK), top_k, BLOCK * 3 // 4)
        amounts = tl.where(by_mass, _mass(weights), 1)
        low = _coarse_threshold(_bits(weights), amounts, tl.where(by_mass, wanted, reach))
        count, mass = _shorten(logits, shorts + row * CAPACITY, largest, temperature, low, vocab, CAPACITY, BLOCK)
        enough = tl.where(top_k > 0, count >= top_k, mass >= wanted) | (low == LIGHTEST_BITS)
        enough = enough & (count <= CAPACITY)
        tl.store(lengths + row, tl.where(enough, count, 0))
        tl.store(leasts + row, tl.where(enough, low, LIGHTEST_BITS))


# ------------------------------------------------------------------------------------------------------- choose


@triton.jit
def _measure(
    source: tl.tensor,
    length: tl.tensor,
    largest: tl.tensor,
    temperature: tl.tensor,
    least: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The number and the mass of the weights whose bits reach ``least``."""
    counts = tl.zeros((BLOCK,), tl.int32)
    masses = tl.zeros((BLOCK,), tl.int64)
    for start in range(0, length, BLOCK):
        weights = _weights(_load(source, start, length, BLOCK), largest, temperature)
        reached = _bits(weights) >= least
        counts += reached.to(tl.int32)
        masses += _mass(tl.where(reached, weights, 0.0))
    return tl.sum(counts), tl.sum(masses)


@triton.jit
def _search(
    source: tl.tensor,
    length: tl.tensor,
    largest: tl.tensor,
    temperature: tl.tensor,
    need: tl.tensor,
    low: tl.tensor,
    count_low: tl.tensor,
    mass_low: tl.tensor,
    BY_MASS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The weight, at ``low`` or above, at which the heaviest come to ``need`` in number or mass (if they do).

    It is alone in ``low <= bits < high``, or with its equals. Returns low, high, and for each the number and mass that
    reach it.
    """
    high = tl.full((), BEYOND_BITS, tl.int32)
    count_high = tl.full((), 0, tl.int32)
    mass_high = tl.full((), 0, tl.int64)
    while (high - low > 1) & (count_low - count_high > 1):
        middle = (low + high) // 2
        count, mass = _measure(source, length, largest, temperature, middle, BLOCK)
        reached = mass >= need if BY_MASS else count >= need
        low = tl.where(reached, middle, low)
        count_low = tl.where(reached, count, count_low)
        mass_low = tl.where(reached, mass, mass_low)
        high = tl.where(reached, high, middle)
        count_high = tl.where(reached, count_high, count)
        mass_high = tl.where(reached, mass_high, mass)
    return low, high, count_low, count_high, mass_low, mass_high


@triton.jit
def _filter(
    source: tl.tensor,
    length: tl.tensor,
    largest: tl.tensor,
    temperature: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    total: tl.tensor,
    least: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """What top-k and top-p keep: weights with ``high <= bits``, and the first ``ties`` of those with ``low <= bits < high``,
    which all have the mass ``unit``; of those whose bits reach ``least``. Returns low, high, the mass above, ties, unit."""
    low, high = least, least
    ties = tl.full((), 0, tl.int32)
    unit = tl.full((), 0, tl.int64)
    count, above = _measure(source, length, largest, temperature, least, BLOCK)
    if top_k > 0:
        low, high, reached, count, mass, above = _search(
            source, length, largest, temperature, top_k, high, count, above, False, BLOCK
        )
        ties = tl.minimum(top_k, reached) - count
        unit = (mass - above) // tl.maximum(reached - count, 1)
        total = above + ties * unit
    if top_p < 1:
        wanted = _nucleus(top_p, total)
        if above >= wanted:
            low, high, reached, count, mass, above = _search(
                source, length, largest, temperature, wanted, high, count, above, True, BLOCK
            )
            ties = reached - count
            unit = (mass - above) // tl.maximum(ties, 1)
        ties = tl.minimum(ties, ((wanted - above + unit - 1) // tl.maximum(unit, 1)).to(tl.int32))
    return low, high, above, ties, unit


@triton.jit
def _gain(weights: tl.tensor, low: tl.tensor, high: tl.tensor, ties: tl.tensor, unit: tl.tensor) -> tl.tensor:
    """The mass that is kept of a block of the row, and how many of the ``ties`` it has."""
    bits = _bits(weights)
    tied = tl.minimum(tl.sum(((low <= bits) & (bits < high)).to(tl.int32)), ties)
    return tl.sum(_mass(tl.where(bits >= high, weights, 0.0))) + tied * unit, tied


@triton.jit
def _invert(
    logits: tl.tensor,
    vocab: tl.tensor,
    largest: tl.tensor,
    temperature: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    ties: tl.tensor,
    unit: tl.tensor,
    target: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The first token at which the mass that is kept exceeds ``target``."""
    start = tl.full((), 0, tl.int32)
    weights = _weights(_load(logits, start, vocab, BLOCK), largest, temperature)
    gain, tied = _gain(weights, low, high, ties, unit)
    while (gain <= target) & (start + BLOCK < vocab):
        target -= gain
        ties -= tied
        start += BLOCK
        weights = _weights(_load(logits, start, vocab, BLOCK), largest, temperature)
        gain, tied = _gain(weights, low, high, ties, unit)
    bits = _bits(weights)
    equal = (low <= bits) & (bits < high)
    kept = (bits >= high) | (equal & (tl.cumsum(equal.to(tl.int32)) <= ties))
    passed = tl.cumsum(_mass(tl.where(kept, weights, 0.0))) <= target
    return tl.minimum(start + tl.sum(passed.to(tl.int32)), vocab - 1)


@triton.jit
def choose(
    logits: tl.tensor,
    temperatures: tl.tensor,
    top_ks: tl.tensor,
    top_ps: tl.tensor,
    min_ps: tl.tensor,
    uniforms: tl.tensor,
    largests: tl.tensor,
    totals: tl.tensor,
    shorts: tl.tensor,
    lengths: tl.tensor,
    leasts: tl.tensor,
    tokens: tl.tensor,
    vocab: tl.tensor,
    stride: tl.tensor,
    CAPACITY: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """``tokens`` int64 [rows], after ``survey``. A row that is not finite has no mass and gets some token."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    temperature, top_p = tl.load(temperatures + row), tl.load(top_ps + row)
    top_k = _limit(tl.load(top_ks + row), vocab)
    largest, total = tl.load(largests + row), tl.load(totals + row)
    floor = tl.maximum(_bits(tl.load(min_ps + row)), LIGHTEST_BITS)
    low, high = floor, floor
    ties = tl.full((), 0, tl.int32)
    unit = tl.full((), 0, tl.int64)
    if (top_k > 0) | (top_p < 1):
        length = tl.load(lengths + row)
        source = tl.where(length > 0, shorts + row * CAPACITY, logits)
        length = tl.where(length > 0, length, vocab)
        least = tl.load(leasts + row)
        low, high, above, ties, unit = _filter(source, length, largest, temperature, top_k, top_p, total, least, BLOCK)
        total = above + ties * unit
        if floor > low:  # then ties are all below it, or one weight that stands alone
            high, ties = floor, tl.full((), 0, tl.int32)
            _, total = _measure(source, length, largest, temperature, floor, BLOCK)
    target = (tl.load(uniforms + row) * total.to(tl.float64)).to(tl.int64)  # below the total, however it is rounded
    tl.store(
        tokens + row, _invert(logits, vocab, largest, temperature, low, high, ties, unit, target, BLOCK).to(tl.int64)
    )
