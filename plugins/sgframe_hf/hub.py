"""Fetches a model from the Hugging Face hub into huggingface_hub's own cache, which other programs share."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from tqdm import tqdm  # type: ignore[import-untyped]

from sgframe.errors import ModelError
from sgframe.interfaces.source import Progress

_WANTED = ("*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")
_UNWANTED = ("*/*", "consolidated*")
_TIMEOUT_SECONDS = 10.0


def fetch_from_hub(repo: str, revision: str, *, offline: bool, progress: Progress) -> Path:
    """The folder of hub model ``repo``, fetched if need be. Raises ModelError within seconds when the hub is silent."""
    if offline:
        return _cached(repo, revision, "the hf source is set to offline")
    try:
        info = HfApi().model_info(repo, revision=revision or None, files_metadata=True, timeout=_TIMEOUT_SECONDS)
    except HfHubHTTPError as error:
        raise ModelError(_refusal(repo, revision, error)) from error
    except Exception as error:  # the hub did not answer; what that raises depends on the HTTP library underneath
        return _cached(repo, revision, f"the hub cannot be reached ({error})")
    files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    if not any(name.endswith(".safetensors") for name in files):
        ggufs = [name for name in files if name.endswith(".gguf")]
        hint = f"; download one of its GGUF files ({ggufs[0]}, …) and pass its path" if ggufs else ""
        raise ModelError(f"the hub model {repo} has no safetensors weights{hint}")
    return _download(repo, revision, sum(files[name] for name in _selected(files)), progress)


def _download(repo: str, revision: str, total: int, progress: Progress) -> Path:
    bar = _reporter(f"fetching {repo} from the hub", total, progress)
    try:
        return Path(_snapshot(repo, revision, tqdm_class=bar))
    except (HfHubHTTPError, OSError) as error:
        raise ModelError(f"fetching {repo} from the hub broke off, start again to resume: {error}") from error


def _cached(repo: str, revision: str, why: str) -> Path:
    try:
        return Path(_snapshot(repo, revision, local_files_only=True))
    except OSError as error:
        raise ModelError(
            f"the hub model {repo} is not on this machine and {why}; fetch it where there is a network "
            f"('hf download {repo}'), or pass the path of a model folder or .gguf file"
        ) from error


def _snapshot(repo: str, revision: str, **options: Any) -> str:
    patterns: dict[str, Any] = {"allow_patterns": list(_WANTED), "ignore_patterns": list(_UNWANTED)}
    return str(snapshot_download(repo, revision=revision or None, **patterns, **options))


def _selected(names: Iterable[str]) -> list[str]:
    wanted = [name for name in names if any(fnmatch(name, pattern) for pattern in _WANTED)]
    return [name for name in wanted if not any(fnmatch(name, pattern) for pattern in _UNWANTED)]


def _refusal(repo: str, revision: str, error: HfHubHTTPError) -> str:
    if isinstance(error, GatedRepoError):
        return f"the hub model {repo} is gated: accept its terms on the hub, then log in with 'hf auth login'"
    if isinstance(error, RevisionNotFoundError):
        return f"the hub model {repo} has no revision {revision!r}"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub has no model {repo}, or it is private; check the spelling, or log in with 'hf auth login'"
    return f"the hub refused {repo}: {error}"


def _reporter(what: str, total: int, progress: Progress) -> type[Any]:
    """A tqdm class that draws nothing and hands byte counts on to ``progress``.

    The hub library counts bytes received and bytes written on bars of their own; the one that is ahead is told.
    """
    counted: dict[int, float] = {}

    class Reporter(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._bytes = kwargs.get("unit") == "B"
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            if self._bytes:
                counted[id(self)] = counted.get(id(self), 0.0) + (n or 0)
                progress(what, min(int(max(counted.values())), total), total)
            return None

    return Reporter
