"""The gated activation of a feed-forward layer (Shazeer 2020, SwiGLU), rounded where plain torch rounds."""

import triton
import triton.language as tl


@triton.jit
def silu_mul(
    gate_up: tl.tensor, output: tl.tensor, stride: tl.tensor, WIDTH: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    """``output`` [rows, WIDTH] = SiLU(gate) · up of ``gate_up`` [rows, 2 · WIDTH]; a program takes BLOCK of one row."""
    DTYPE: tl.constexpr = output.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < WIDTH
    source = gate_up + row * stride + columns
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32)
    activated = (gate / (1.0 + tl.exp(-gate))).to(DTYPE).to(tl.float32)
    tl.store(output + row * WIDTH + columns, (activated * up).to(DTYPE), mask=inside)
