"""The ``hf`` model source: from a name to a checkpoint on disk, and its tokenizer.

A name is looked up in this order: a bundled model, a path that exists (a folder in Hugging Face layout or a GGUF file),
a hub id. A folder named like a bundled model is reached as ``./NAME``. Imports neither torch nor transformers: what
needs them runs in a child process.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from sgframe.assembly.hints import nearest
from sgframe.errors import ModelError
from sgframe.interfaces.source import CatalogueEntry, Checkpoint, ModelSource, Progress
from sgframe_hf import HfSettings
from sgframe_hf.cache import ModelCache, Scratch, cache_root
from sgframe_hf.catalogue import BUNDLED, Bundled
from sgframe_hf.checkpoint import ModelConfig, check_complete
from sgframe_hf.fetch import fetch
from sgframe_hf.subprocesses import ChildFailed, run_module
from sgframe_hf.tokenizer import HfTokenizer

_CONVERSION = 1
"""Part of every cache key: raised whenever the converter writes something else than before."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_GGUF_MAGIC = b"GGUF"


class HfSource(ModelSource):
    """See the module. Converted models are kept in the cache folder that ``settings`` name."""

    def __init__(self, settings: HfSettings) -> None:
        self._settings = settings
        self._models = ModelCache(cache_root(settings.cache_folder) / "models")
        self._tokenizers = ModelCache(cache_root(settings.cache_folder) / "tokenizers")
        self._loaded: dict[str, HfTokenizer] = {}

    def catalogue(self) -> Sequence[CatalogueEntry]:
        """See ModelSource."""
        return [
            CatalogueEntry(
                name=model.name,
                summary=model.summary,
                licence=model.licence,
                download_bytes=model.download_bytes,
                cached=self._models.has(_key(model.name)),
            )
            for model in BUNDLED.values()
        ]

    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        """See ModelSource."""
        folder = self._folder(name, progress)
        check_complete(folder)
        config = ModelConfig(folder)
        tokenizer = self._tokenizer(folder, progress)
        ends = [*config.eos_ids(), *([] if tokenizer.eos_id is None else [tokenizer.eos_id])]
        return Checkpoint(
            name=name,
            folder=str(folder),
            context_length=config.context_length(),
            vocab_size=config.vocab_size(),
            eos_ids=tuple(dict.fromkeys(ends)),
        )

    def tokenizer(self, checkpoint: Checkpoint) -> HfTokenizer:
        """See ModelSource."""
        return self._tokenizer(Path(checkpoint.folder), lambda what, done, total: None)

    def _folder(self, name: str, progress: Progress) -> Path:
        if (model := BUNDLED.get(name)) is not None:
            return self._bundled(model, progress)
        path = Path(os.path.expanduser(name))  # a user who is not there is no error but a name
        if path.is_dir():
            return path.absolute()
        if path.is_file():
            return self._gguf(path.absolute(), progress)
        if _HUB_ID.fullmatch(name) and path.suffix != ".gguf":
            from sgframe_hf.hub import fetch_from_hub  # noqa: PLC0415 (brings an HTTP library, seldom needed)

            return fetch_from_hub(name, self._settings.revision, offline=self._settings.offline, progress=progress)
        raise ModelError(
            f"there is no model {name!r}: it is no bundled model ({', '.join(BUNDLED)}), no folder or .gguf file at "
            f"{path.absolute()}, and no hub id (ORG/NAME){nearest(name.lower(), BUNDLED)}"
        )

    def _bundled(self, model: Bundled, progress: Progress) -> Path:
        def make(scratch: Scratch) -> Path:
            if self._settings.offline:
                raise ModelError(f"{model.name} is not on this machine and the hf source is set to offline")
            gguf = fetch(model, scratch, progress)
            made = _convert("gguf", gguf, scratch, f"converting {model.name}", progress)
            for notice in (scratch.folder / "notices").iterdir():
                notice.rename(made / notice.name)
            return made

        return self._models.get(_key(model.name), make, progress)

    def _gguf(self, path: Path, progress: Progress) -> Path:
        with path.open("rb") as file:
            if file.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
                raise ModelError(f"{path} is a file but no GGUF; pass a .gguf file or a model folder")

        def make(scratch: Scratch) -> Path:
            return _convert("gguf", path, scratch, f"converting {path.name}", progress)

        return self._models.get(_key(path.stem, path), make, progress)

    def _tokenizer(self, folder: Path, progress: Progress) -> HfTokenizer:
        key = str(folder)
        if key not in self._loaded:
            self._loaded[key] = HfTokenizer(self._fast_tokenizer(folder, progress))
        return self._loaded[key]

    def _fast_tokenizer(self, folder: Path, progress: Progress) -> Path:
        """The folder that holds tokenizer.json: the checkpoint's, or a converted one."""
        if (folder / "tokenizer.json").is_file():
            return folder

        def make(scratch: Scratch) -> Path:
            return _convert("tokenizer", folder, scratch, f"converting the tokenizer of {folder.name}", progress)

        return self._tokenizers.get(
            _key(folder.name, *sorted(folder.glob("*.json")), *sorted(folder.glob("*.model"))), make, progress
        )


def _key(name: str, *files: Path) -> str:
    """A cache key for what is made of ``files``: it changes when one of them is moved or written."""
    words = [re.sub(r"[^\w.-]", "_", name)]
    if files:
        facts = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        words.append(hashlib.sha256(repr(facts).encode()).hexdigest()[:16])
    return "-".join([*words, str(_CONVERSION)])


def _convert(kind: str, source: Path, scratch: Scratch, what: str, progress: Progress) -> Path:
    made = scratch.folder / "made"
    made.mkdir()
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}
    progress(what, 0, 0)
    try:
        run_module(
            ["sgframe_hf.convert", kind, str(source), str(made)],
            lock=scratch.lock,
            tick=lambda: progress(what, 0, 0),
            environment={**quiet, "CUDA_VISIBLE_DEVICES": ""},
        )
    except ChildFailed as error:
        raise ModelError(f"{what} failed: {error}") from error
    return made
