"""Grammar masks: one bit a token."""

import triton
import triton.language as tl


@triton.jit
def apply_mask(
    logits: tl.tensor,
    words: tl.tensor,
    vocab: tl.tensor,
    logits_stride: tl.tensor,
    words_stride: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Set to -inf what ``words`` [rows, ceil(vocab / 32)] int32 forbid in ``logits`` [rows, vocab] float32.

    A program takes BLOCK words of one row. Logits are written, never read.
    """
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.arange(0, 32)
    tokens = places[:, None] * 32 + bits[None, :]
    packed = tl.load(words + row * words_stride + places, mask=places * 32 < vocab, other=-1)
    forbidden = (packed[:, None] >> bits[None, :]) & 1 == 0
    tl.store(logits + row * logits_stride + tokens, -float("inf"), mask=forbidden & (tokens < vocab))
