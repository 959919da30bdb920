"""What the endpoints share: the engine, the metrics, the model's names, and how a request is submitted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from sgframe.errors import RequestError
from sgframe.sampling import SamplingParams
from sgframe_openai.errors import ApiError
from sgframe_openai.generation import Batch
from sgframe_openai.metrics import Metrics, Stopwatch
from sgframe_openai.schema import GenerationBody

if TYPE_CHECKING:
    from sgframe.front.async_engine import AsyncEngine


@dataclass(frozen=True)
class Service:
    """One per application."""

    engine: AsyncEngine
    metrics: Metrics
    started: int = field(default_factory=lambda: int(time.time()))

    @property
    def model_name(self) -> str:
        """What answers and /v1/models call the model."""
        return self.engine.settings.served_model_name or self.engine.checkpoint.name

    def check_model(self, name: str) -> None:
        """Raise ApiError (404) unless ``name`` is the served name or the one the model was started with."""
        if name not in (self.model_name, self.engine.settings.model):
            asked = f"model {name!r} is not served here" if name else "no model was asked for"
            raise ApiError(404, f"{asked}; this server has {self.model_name!r}", param="model", code="model_not_found")

    def head(self, prefix: str) -> dict[str, Any]:
        """The fields of an answer that are known before it begins; its id starts with ``prefix``."""
        return {"id": f"{prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": self.model_name}

    async def submit(
        self,
        prompts: Sequence[str | Sequence[int]],
        params: SamplingParams,
        body: GenerationBody,
        request_id: str,
    ) -> Batch:
        """Start a generation for each prompt, or none: if one is refused the others are aborted. Raises RequestError."""
        batch = Batch(Stopwatch(self.metrics, len(prompts) * params.n), constrained=params.constraint is not None)
        try:
            for prompt in prompts:
                batch.generations.append(
                    await self.engine.submit(
                        prompt,
                        params,
                        namespace=body.namespace,
                        priority=body.priority,
                        request_id=request_id,
                    )
                )
        except BaseException as error:
            batch.abort("refused")
            if isinstance(error, RequestError):
                error.param = body.client_names().get(error.param or "constraint", error.param)
            raise
        return batch


def service_of(request: Request) -> Service:
    """The service of the application that received ``request``."""
    service: Service = request.app.state.service
    return service
