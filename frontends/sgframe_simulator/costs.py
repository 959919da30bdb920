"""The cost model: how long a step takes on the machine that is simulated. Knows amounts of work, not whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sgframe.assembly.config_files import parse
from sgframe.assembly.settings import describe_errors
from sgframe.errors import ConfigError
from sgframe_simulator.device import Work

MOST = 3600.0
"""Seconds: an hour for a single step or token is no machine, and far larger sums are no numbers any more."""


class Costs(BaseModel):
    """Seconds. The defaults are computed, not measured: a model of 8 billion parameters in bfloat16, with 128 KiB of KV a
    token, on a GPU that reaches 500 TFLOP/s and reads 4 TB/s."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    step: Annotated[float, Field(gt=0, le=MOST)] = 5e-3
    """For each step: launching it, and reading the weights once."""
    prefill_token: Annotated[float, Field(ge=0, le=MOST)] = 3.2e-5
    """For each token of a prompt's chunk."""
    decode_token: Annotated[float, Field(ge=0, le=MOST)] = 2e-5
    """For each row that decodes."""
    context_token: Annotated[float, Field(ge=0, le=MOST)] = 3.3e-8
    """For each token of KV that a decoding row reads."""

    def seconds(self, work: Work, steps: int = 1) -> float:
        """How long ``work`` takes; with ``steps``, as many decode steps, in each of which a row reads a token more."""
        read = steps * work.context + work.decoding * steps * (steps - 1) // 2
        rows = steps * (self.step + self.decode_token * work.decoding)
        return rows + self.prefill_token * work.prefilled + self.context_token * read


def read_costs(file: Path | None) -> Costs:
    """The profile in ``file`` (.toml, .yaml or .json); the defaults for what it leaves out. Raises ConfigError."""
    try:
        return Costs.model_validate(parse(file) if file else {})
    except ValidationError as error:
        lines = describe_errors(error, (), Costs.model_fields, {})
        raise ConfigError(f"{file}: " + "; ".join(lines)) from None
