"""Any causal LM of transformers, by its own modules, with its attention pointed at our paged KV.

The modules see one batch of flat tokens with position ids and no cache; ``paged_attention`` stands in their attention
interface. What cannot be served so (state outside attention, other masks, attention sinks) is refused at load.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.modeling_outputs import MoeModelOutputWithPast
from transformers.utils.logging import disable_progress_bar

from sgframe.errors import ModelError
from sgframe_torch.kv import KVShape, LayerKV
from sgframe_torch.models.divided import divide, fill, sharding, skeleton
from sgframe_torch.ops import DeviceOps, Linear
from sgframe_torch.parallel.group import Group
from sgframe_torch.rows import StepInputs
from sgframe_torch.weights import weight_files

IMPLEMENTATION = "sgframe_paged"


def check_ranks(config: Any, size: int) -> None:
    """Raises ModelError, with the numbers, when ``size`` ranks cannot divide the model of ``config``."""
    sharding(skeleton(config, torch.float32, IMPLEMENTATION), 0, size)


def load(
    folder: Path,
    config: Any,
    dtype: torch.dtype,
    ops: DeviceOps,
    group: Group,
    progress: Callable[[str, int, int], None],
) -> TransformersModel:
    """Load this rank's part of the model from ``folder``. Raises ModelError."""
    if group.size == 1:
        with torch.inference_mode():
            return TransformersModel(_load_whole(folder, config, dtype, ops.device, progress).eval(), ops)
    model = skeleton(config, dtype, IMPLEMENTATION)
    shares = sharding(model, group.rank, group.size)
    with torch.inference_mode():
        fill(model, folder, dtype, ops.device, shares, progress)
        return TransformersModel(model.eval().to(ops.device), ops, partial(divide, shares=shares, group=group))


def _load_whole(
    folder: Path, config: Any, dtype: torch.dtype, device: torch.device, progress: Callable[[str, int, int], None]
) -> Any:
    total = sum((folder / name).stat().st_size for name in weight_files(folder))
    progress("weights", 0, total)  # transformers reads the files in one go and does not tell how far it is
    disable_progress_bar()  # ours goes through ``progress``
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, device_map={"": device}, attn_implementation=IMPLEMENTATION
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(f"transformers cannot load {folder} ({config.model_type}): {error}") from error
    progress("weights", total, total)
    return model


class TransformersModel:
    """See ``sgframe_torch.models.Model``. ``finish`` has the last word on ``model``."""

    recordable = False

    def __init__(self, model: Any, ops: DeviceOps, finish: Callable[[Any], None] = lambda model: None) -> None:
        self._ops = ops
        self._base = model.base_model
        self.weight_bytes, self.packed_bytes = _repack(model, ops)
        finish(model)
        self._head = _head_of(model)
        self.kv_shapes = self._probe(model)

    def hidden(self, step: StepInputs, kv: list[LayerKV]) -> Tensor:
        return _run(self._base, step.tokens, step.positions, _Paged(self._ops, step, kv))

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(inputs_embeds=hidden[None], use_cache=False).logits[0]  # type: ignore[no-any-return]

    def _probe(self, model: Any) -> list[KVShape]:
        """Run one token, to see what each layer hands to attention, and refuse what needs more than paged KV."""
        calls: dict[int, _Call] = {}

        def record(call: _Call) -> Tensor:
            calls[call.layer] = call
            return call.query.new_zeros(*call.query.shape[:2], call.value.shape[-1])

        types = _layer_types(model)
        zero = torch.zeros(1, dtype=torch.int64, device=self._ops.device)
        try:
            self.logits(_run(self._base, zero, zero, record))
        except (AttributeError, TypeError) as error:
            raise _unsupported(model.config, f"its modules do not work by themselves ({error})") from error
        if sorted(calls) != list(range(len(types))):
            raise _unsupported(model.config, f"only {len(calls)} of its {len(types)} layers are attention")
        if any(types[layer] == "sliding_attention" and not call.window for layer, call in calls.items()):
            raise _unsupported(model.config, "it does not tell its attention the sliding window")
        return [KVShape(call.key.shape[1], call.key.shape[2], call.value.shape[2]) for _, call in sorted(calls.items())]


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the attention interface; query, key and value are [T, heads, dim]."""

    layer: int
    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    window: int
    softcap: float


@dataclass(frozen=True, slots=True)
class _Paged:
    """Attention of one step over the paged KV."""

    ops: DeviceOps
    step: StepInputs
    kv: list[LayerKV]

    def __call__(self, call: _Call) -> Tensor:
        kv = self.kv[call.layer]
        kv.store(self.step.slots, call.key, call.value)
        return self.ops.attention(call.query, kv, self.step, call.scale, call.window, call.softcap)


def _run(base: Any, tokens: Tensor, positions: Tensor, attend: Callable[[_Call], Tensor]) -> Tensor:
    output = base(input_ids=tokens[None], position_ids=positions[None], use_cache=False, attend=attend)
    return output.last_hidden_state[0]  # type: ignore[no-any-return]


def _attention(  # transformers' signature
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attend: Callable[[_Call], Tensor],
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: [1, heads, T, dim] in, [1, T, heads, dim] out."""
    if attention_mask is not None or s_aux is not None or not getattr(module, "is_causal", True):
        raise _unsupported(module.config, "its attention is not plainly causal (a mask, a sink, or both directions)")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))
    return attend(_Call(module.layer_idx, query, key, value, scale, sliding_window or 0, softcap or 0.0))[None], None


AttentionInterface.register(IMPLEMENTATION, _attention)


def _layer_types(model: Any) -> list[str]:
    """The kind of attention of each layer; refuses those that paged KV cannot serve."""
    config = model.config
    types = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    if "position_ids" not in inspect.signature(model.base_model.forward).parameters:
        raise _unsupported(config, "it does not take position ids")
    if not model._supports_attention_backend or not set(types) <= {"full_attention", "sliding_attention"}:
        raise _unsupported(config, f"its attention is not the common one (layers: {', '.join(sorted(set(types)))})")
    return list(types)


def _unsupported(config: Any, reason: str) -> ModelError:
    return ModelError(f"model type {config.model_type!r} cannot be served: {reason}; choose another model")


@dataclass
class _GivenOutput(MoeModelOutputWithPast):
    """Has every field that some architecture passes on."""

    cross_attentions: None = None


class _Given(nn.Module):
    """Stands for the base model: its output is what it is given."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> MoeModelOutputWithPast:
        return _GivenOutput(last_hidden_state=inputs_embeds)


def _head_of(model: Any) -> Any:
    """``model`` without its base: from the last hidden state to logits, with whatever the architecture does there."""
    head = copy.copy(model)
    head._modules = {**model._modules, model.base_model_prefix: _Given()}
    return head


class _Repacked(nn.Module):
    def __init__(self, linear: Linear, out_features: int) -> None:
        super().__init__()
        self._linear = linear
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        return self._linear(x)


def _repack(model: Any, ops: DeviceOps) -> tuple[int, int]:
    """Hand the linear layers to a device that lays weights out anew. The bytes of all weights after that, and, apart from
    them, those of layers whose weight lives on elsewhere as well (a tied head)."""
    shared = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    held, copied = sum(parameter.nbytes for parameter in model.parameters()), 0
    head = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is not nn.Linear or not (packed := ops.packed_bytes(child.weight, child is head)):
                continue
            if id(child.weight) in shared:
                copied += packed
            else:
                held += packed - child.weight.nbytes
            make = ops.head if child is head else ops.linear
            setattr(parent, name, _Repacked(make(child.weight, child.bias), child.out_features))
    return held, copied
