"""Root mean square norm (Zhang & Sennrich 2019): one program a row, in float32, rounded where plain torch rounds.

Rows are read by their strides, their elements side by side.
"""

import triton
import triton.language as tl


@triton.jit
def normalised(
    values: tl.tensor,
    squares: tl.tensor,
    weight: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    DTYPE: tl.constexpr,
) -> tl.tensor:
    """``values`` float32, divided by the root of ``squares`` / WIDTH and rounded to DTYPE, times ``weight``: in DTYPE."""
    rounded = (values * tl.rsqrt(squares / WIDTH + eps)).to(DTYPE)
    return (rounded.to(tl.float32) * weight.to(tl.float32)).to(DTYPE)


@triton.jit
def rms_norm(
    x: tl.tensor,
    weight: tl.tensor,
    output: tl.tensor,
    inner: tl.tensor,
    outer_stride: tl.tensor,
    inner_stride: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """``output`` [rows, WIDTH] from ``x`` [rows / inner, inner, WIDTH]."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    source = x + row // inner * outer_stride + row % inner * inner_stride
    values = tl.load(source + columns, mask=inside, other=0.0).to(tl.float32)
    weights = tl.load(weight + columns, mask=inside, other=0.0)
    result = normalised(values, tl.sum(values * values), weights, eps, WIDTH, output.dtype.element_ty)
    tl.store(output + row * WIDTH + columns, result, mask=inside)


@triton.jit
def add_rms_norm(
    x: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    output: tl.tensor,
    x_stride: tl.tensor,
    residual_stride: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """``residual`` [rows, WIDTH] += ``x``; ``output`` is the norm of the sum as it was stored."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    place = residual + row * residual_stride + columns
    update = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    total = (tl.load(place, mask=inside, other=0.0).to(tl.float32) + update).to(residual.dtype.element_ty)
    tl.store(place, total, mask=inside)
    values = total.to(tl.float32)
    weights = tl.load(weight + columns, mask=inside, other=0.0)
    result = normalised(values, tl.sum(values * values), weights, eps, WIDTH, output.dtype.element_ty)
    tl.store(output + row * WIDTH + columns, result, mask=inside)
