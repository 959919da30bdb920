"""Linear layers whose bfloat16 weight is laid out once for oneDNN, where F.linear does so at every call.

The two operators are private to torch; where this torch lacks them, ``can_pack`` says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sgframe_torch.ops import Linear

_PACK_FOR_ROWS = 64


def can_pack() -> bool:
    """Whether this torch has oneDNN and the operators."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


def packed_linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """[T, in] → [T, out] with ``weight`` [out, in], which is no longer needed afterwards."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _PACK_FOR_ROWS)
    compute = torch.ops.mkldnn._linear_pointwise.default

    def linear(x: Tensor) -> Tensor:
        return compute(x, packed, bias, "none", [], "")  # type: ignore[no-any-return]

    return linear
