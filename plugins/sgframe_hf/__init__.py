"""Offers the ``hf`` model source: Hugging Face folders, GGUF files, hub ids and the bundled models."""

from __future__ import annotations

from pydantic import Field

from sgframe import PluginSettings, Provider, hookimpl


class HfSettings(PluginSettings):
    """The table ``[plugin.hf]``."""

    cache_folder: str = Field(
        default="",
        description="Where fetched and converted models are kept; empty means sgframe in the user's cache folder",
    )
    offline: bool = Field(default=False, description="Never fetch, only use what is there")
    revision: str = Field(default="", description="Branch, tag or commit of hub ids; empty means the default branch")


@hookimpl
def sgframe_model_sources() -> list[Provider]:
    return [
        Provider(
            name="hf",
            target="sgframe_hf.source:HfSource",
            summary="Hugging Face folders and hub ids, GGUF files, and two small bundled models",
            settings=HfSettings,
            requires=("tokenizers", "jinja2", "huggingface_hub", "transformers", "gguf"),
        )
    ]
