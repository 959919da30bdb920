"""How far two sequences of tokens are equal. Knows nothing else."""

from __future__ import annotations

from sgframe.messages import Ints


def common_length(left: Ints, right: Ints) -> int:
    """How many leading tokens are equal: by halving, so that whole runs are compared at once."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
