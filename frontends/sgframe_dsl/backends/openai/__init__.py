"""Programs on any OpenAI-compatible endpoint: no prefix handles there, each call sends the whole text."""

from sgframe_dsl.backends.openai.backend import OpenAI

__all__ = ["OpenAI"]
