"""How a ``gen`` is sampled, as programs write it → SamplingParams. Refuses at once what no backend would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from sgframe.assembly.hints import nearest
from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.sampling import SamplingParams

ANY_TOKEN = 2**31 - 1
"""Bound of token ids: the vocabulary is the backend's to know."""


class Sampling(TypedDict, total=False):
    """As in ``sgframe.SamplingParams``, where the defaults stand too; ``stop`` may be one string."""

    max_tokens: int
    stop: str | Sequence[str]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: Mapping[int, float]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    seed: int
    logprobs: int


def sampling_params(
    asker: str, options: Mapping[str, Any], n: int = 1, constraint: Constraint | None = None
) -> SamplingParams:
    """``options`` are those of Sampling; what is None counts as unsaid. Raises TypeError or ValueError that begins with
    ``asker``."""
    if not isinstance(options, Mapping):
        raise TypeError(f"{asker} is a dict of options, found {options!r}")
    if unknown := options.keys() - Sampling.__annotations__.keys():
        name = min(unknown)
        known = Sampling.__annotations__
        raise TypeError(f"{asker} has no option {name!r}{nearest(name, known) or '; it has ' + ', '.join(known)}")
    said = {name: value for name, value in options.items() if value is not None}
    if isinstance(stop := said.get("stop"), str):
        said["stop"] = (stop,)
    try:
        params = msgspec.convert({**said, "n": n}, SamplingParams)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `")
        name = place.rpartition("$.")[2].rstrip("`")
        raise TypeError(f"{asker}: {name}: {reason}; found {said.get(name.split('[')[0], n)!r}") from None
    try:
        params.validate(ANY_TOKEN)
    except RequestError as error:
        raise ValueError(f"{asker}: {error}") from None
    return msgspec.structs.replace(params, constraint=constraint)
