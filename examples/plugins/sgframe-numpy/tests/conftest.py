"""sgframe's tiny Llama on disk, made for requests of at most 128 tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from sgframe.interfaces.source import Checkpoint
from sgframe.testing import tiny_llama


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return replace(tiny_llama(tmp_path_factory.mktemp("models")), context_length=128)


@pytest.fixture(scope="session")
def folder(checkpoint: Checkpoint) -> Path:
    return Path(checkpoint.folder)


@pytest.fixture(scope="session")
def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")
