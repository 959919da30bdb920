"""A causal LM of transformers of which every rank has its part, by the plan that transformers has for the architecture.

The plan says which layers are divided and how. Its modules stay what they are: their weights become smaller, and around
their forward comes what the ranks add. Whatever the plan may mean beyond that is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights  # type: ignore[import-untyped]
from torch import Tensor, nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key
from transformers.initialization import no_init_weights

from sgframe.errors import ModelError
from sgframe_torch.parallel.group import Group
from sgframe_torch.parallel.layers import Layer, gathered, row_parallel, vocabulary_parallel
from sgframe_torch.parallel.shards import Cut, Division, Sharding, Style, wildcard
from sgframe_torch.weights import Weights, tensor_names

_BY_HEADS = frozenset({"q_proj", "k_proj", "v_proj", "query_key_value"})
"""Layers of attention whose outputs are known to lie head after head."""
_NOTHING = frozenset({"replicate", "replicated_with_grad_allreduce"})
"""Styles of layers that are whole on every rank."""


def skeleton(config: Any, dtype: torch.dtype, implementation: str) -> Any:
    """The model of ``config``, whose parameters have no memory yet. Raises ModelError."""
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or getattr(config, "quantization_config", None):
        raise _indivisible(config, "sgframe divides only unquantized models of transformers' own")
    if not config.base_model_tp_plan:
        raise _indivisible(config, "transformers has no tensor parallel plan for it")
    try:
        with no_init_weights(), init_empty_weights(include_buffers=False):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=implementation)
    except (ValueError, ImportError, KeyError) as error:
        raise _indivisible(config, f"transformers cannot make it ({error})") from error
    model.tie_weights()
    return model


def sharding(model: Any, rank: int, size: int) -> Sharding:
    """How ``size`` ranks divide ``model``, a skeleton, as ``rank`` sees it. Raises ModelError, with the numbers, when they
    cannot."""
    heads = model.config.num_attention_heads
    kv_heads = getattr(model.config, "num_key_value_heads", None) or heads
    shares = Sharding(_plan(model), kv_heads, rank, size)
    widths, by_heads = {}, False
    for name, module in model.named_modules():
        style = shares.style(name)
        if style is not None:
            _check_layer(model, name, style, module, kv_heads)
        if style is Style.COLUMNS:
            widths[f"width of {name}"] = module.out_features
            by_heads = by_heads or _last(name) in _BY_HEADS
        elif style in (Style.ROWS, Style.SPLIT_ROWS):
            widths[f"width of {name}"] = module.in_features
    Division(heads if by_heads else 0, kv_heads if by_heads else 0, widths).check(size)
    return shares


def fill(
    model: Any,
    folder: Path,
    dtype: torch.dtype,
    device: torch.device,
    shares: Sharding,
    progress: Callable[[str, int, int], None],
) -> None:
    """Give the skeleton ``model`` this rank's part of the weights in ``folder``. Raises ModelError."""
    parameters = dict(model.named_parameters())  # held, so that an id names one of them until the end
    names = {id(parameter): name for name, parameter in parameters.items()}
    stored = _stored_names(model, tensor_names(folder))
    own = {file_name: name for name, file_name in stored.items()}

    def cut(file_name: str, shape: Sequence[int]) -> Cut | None:
        return shares.cut(own.get(file_name, ""), shape)

    loaded: dict[int, nn.Parameter | None] = {}
    with Weights(folder, dtype, device, progress, cut) as weights:
        for module in model.modules():
            for key, parameter in list(module.named_parameters(recurse=False)):
                if id(parameter) not in loaded:
                    name = names[id(parameter)]
                    part = weights[stored.get(name, name)]  # of a bias that another rank adds, nothing
                    loaded[id(parameter)] = nn.Parameter(part, requires_grad=False) if part.numel() else None
                setattr(module, key, loaded[id(parameter)])
        for name, buffer in model.named_buffers():
            if name in stored:
                buffer.copy_(weights[stored[name]])


def divide(model: Any, shares: Sharding, group: Group) -> None:
    """Put around the layers of ``model``, which has its part of the weights, what the ranks add."""
    for name, module in model.named_modules():
        match shares.style(name):
            case Style.GATHERED_COLUMNS:
                module.forward = gathered(module.forward, group, module.out_features)
            case Style.ROWS:
                module.forward = row_parallel(module.forward, group)
            case Style.SPLIT_ROWS:
                module.forward = row_parallel(_own_inputs(module.forward, group), group)
            case Style.VOCABULARY:
                module.forward = vocabulary_parallel(module.forward, len(module.weight), group)


def _own_inputs(layer: Layer, group: Group) -> Layer:
    def forward(x: Tensor) -> Tensor:
        share = x.shape[-1] // group.size
        return layer(x.narrow(-1, group.rank * share, share))

    return forward


# ------------------------------------------------------------------------------------------------------ the plan


def _plan(model: Any) -> dict[str, Style]:
    """The plan of ``model``, by the names that it gives its modules. The vocabulary is divided whatever the plan says."""
    config, prefix = model.config, model.base_model_prefix
    asked = {f"{prefix}.{name}": style for name, style in config.base_model_tp_plan.items()} | (
        type(model)._tp_plan or {}
    )
    asked = {name: style for name, style in asked.items() if style not in _NOTHING}
    modules = {wildcard(name) for name, _ in model.named_modules()}
    parameters = {wildcard(name) for name, _ in model.named_parameters()}
    present = {name: style for name, style in asked.items() if name in modules | parameters}  # others are a sister's
    strange = [name for name, style in present.items() if style not in set(Style) or name in parameters]
    if strange:
        listed = ", ".join(f"{name} ({present[name]})" for name in strange)
        raise _indivisible(config, f"its plan divides {listed}, which sgframe cannot")
    plan = {name: Style(style) for name, style in present.items()}
    for name, style in plan.items():
        if style is Style.COLUMNS and _last(name) in ("k_proj", "v_proj"):
            plan[name] = Style.KV_HEADS
    names = {id(module): name for name, module in model.named_modules()}
    plan[names[id(model.get_input_embeddings())]] = Style.VOCABULARY
    plan[names[id(model.get_output_embeddings())]] = Style.GATHERED_COLUMNS
    return plan


def _check_layer(model: Any, name: str, style: Style, module: Any, kv_heads: int) -> None:
    """Refuse what a plan may divide, but sgframe does not know how."""
    if not isinstance(module, nn.Embedding if style is Style.VOCABULARY else nn.Linear):
        raise _indivisible(model.config, f"{name} is a {type(module).__name__}, which sgframe cannot divide")
    if style is Style.COLUMNS and "att" in name and _last(name) not in _BY_HEADS:
        raise _indivisible(model.config, f"sgframe does not know how the heads lie in {name}")
    if style is Style.KV_HEADS:
        outputs = model.get_submodule(name).out_features
        own = outputs // getattr(model.get_submodule(name.rpartition(".")[0]), "head_dim", outputs // kv_heads)
        if own != kv_heads:
            raise _indivisible(model.config, f"{name} has {own} KV heads, and other layers {kv_heads}")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _stored_names(model: Any, names: set[str]) -> dict[str, str]:
    """What each tensor of ``model`` is called in its checkpoint, which has ``names``; by transformers' own renamings."""
    mapping = get_model_conversion_mapping(model)
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    tensors, prefix = model.state_dict(), model.base_model_prefix
    stored = {}
    for name in sorted(names):
        renamed, converter = rename_source_key(name, renamings, converters, prefix, tensors)
        if renamed not in tensors and name in tensors:
            renamed, converter = rename_source_key(name, [], [], prefix, tensors)
        if renamed in tensors:
            if converter is not None:
                raise _indivisible(model.config, f"the checkpoint has {name} in a form that is converted as a whole")
            stored[renamed] = name
    return stored


def _indivisible(config: Any, reason: str) -> ModelError:
    return ModelError(
        f"a model of type {config.model_type!r} cannot be divided among ranks: {reason}; "
        f"choose a tp_size of 1, or another model"
    )
