"""The double of torch_npu refuses what the prototypes and the documentation of the real one rule out."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import npu_device
import npu_double
import pytest
import torch
from npu_prototypes import PROTOTYPES, signature
from npu_rules import RULES, Misuse
from npu_wheel import Wheel

MASK = torch.ones(2048, 2048, dtype=torch.bool).triu(diagonal=1)
PAGES = {"block_table": torch.tensor([[1], [0]], dtype=torch.int32), "block_size": 128}


@pytest.fixture
def npu() -> ModuleType:
    return npu_double.double()


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).half()


def decode(npu: ModuleType, query: torch.Tensor | None = None, key: torch.Tensor | None = None, **changes: Any) -> Any:
    """Two rows of one token over paged KV: what is right, but for ``changes``."""
    query = half(2, 1, 4, 16) if query is None else query
    key = half(2, 128, 32) if key is None else key
    options = {
        "num_heads": 4,
        "num_key_value_heads": 2,
        "scale": 0.25,
        "input_layout": "BSND",
        "actual_seq_lengths": [1, 1],
        "actual_seq_lengths_kv": [3, 128],
        **PAGES,
    }
    return npu.npu_fused_infer_attention_score(query, key, key, **options | changes)


def prefill(npu: ModuleType, **changes: Any) -> Any:
    """Two rows of five tokens over paged KV: what is right, but for ``changes``."""
    options = {"actual_seq_lengths": [5, 5], "actual_seq_lengths_kv": [5, 100], "atten_mask": MASK, "sparse_mode": 3}
    return decode(npu, **{"query": half(2, 5, 4, 16)} | options | changes)


def test_what_is_right_is_computed(npu: ModuleType) -> None:
    assert decode(npu)[0].shape == (2, 1, 4, 16)
    assert prefill(npu)[0].shape == (2, 5, 4, 16)


# ------------------------------------------------------------------------------------------- names, kinds and types


@pytest.mark.parametrize(
    ("error", "complaint", "changes"),
    [
        (TypeError, "unexpected keyword argument 'actual_seq_kvlen'", {"actual_seq_kvlen": [3, 128]}),  # v2's name
        (Misuse, "array of ints", {"actual_seq_lengths_kv": torch.tensor([3, 128])}),
        (Misuse, "array of ints", {"actual_seq_lengths_kv": [torch.tensor(3), 128]}),
        (RuntimeError, "'int' for argument 'block_size'", {"block_size": 128.0}),
        (RuntimeError, "'str' for argument 'input_layout'", {"input_layout": 3}),
        (RuntimeError, "Tensor.* for argument 'block_table'", {"block_table": [[1], [0]]}),
        (RuntimeError, "'float' for argument 'scale'", {"scale": "0.25"}),
        (RuntimeError, "'bool' for argument 'softmax_lse_flag'", {"softmax_lse_flag": "no"}),
    ],
)
def test_a_wrong_name_or_type_is_refused(
    npu: ModuleType, error: type[Exception], complaint: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(error, match=complaint):
        decode(npu, **changes)


def test_what_comes_by_keyword_may_not_come_by_position(npu: ModuleType) -> None:
    query, angles = half(3, 4, 64), half(3, 1, 64)
    with pytest.raises(TypeError, match="too many positional"):
        npu.npu_apply_rotary_pos_emb(query, query, angles, angles, "TND")
    with pytest.raises(TypeError, match="too many positional"):
        npu.npu_fused_infer_attention_score(half(1, 1, 1, 16), half(1, 1, 1, 16), half(1, 1, 1, 16), None)


def test_what_is_missing_is_missed(npu: ModuleType) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'gamma'"):
        npu.npu_rms_norm(half(2, 16))


# --------------------------------------------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("half precision", {"query": torch.randn(2, 1, 4, 16), "key": torch.randn(2, 128, 32)}),
        ("half precision", {"query": half(2, 1, 16, 4).transpose(2, 3)}),
        ("heads that share", {"num_heads": 2}),
        ("heads that share", {"num_key_value_heads": 3}),
        ("dim", {"query": half(2, 1, 4, 8), "key": half(2, 128, 16)}),
        ("a length each", {"actual_seq_lengths_kv": [3, 3, 3]}),
        ("block table", {"actual_seq_lengths_kv": [3, 129]}),
        ("lengths within", {"actual_seq_lengths": [1, 2]}),
        ("one token heeds no mask", {"sparse_mode": 3, "atten_mask": MASK}),
        ("one token heeds no mask", {"pre_tokens": 7}),
        ("page of a decode", {"block_size": 24}),
        ("page of a decode", {"block_size": 0, "actual_seq_lengths_kv": None}),
        ("layout of pages", {"key": half(2, 128, 2, 16)}),
        ("layout of pages", {"key": half(4, 64, 32)}),
        ("pages have lengths", {"actual_seq_lengths_kv": None}),
        ("block table", {"block_table": torch.zeros(3, 1, dtype=torch.int32)}),
        ("block table type", {"block_table": torch.tensor([[1], [0]])}),
        ("pages of all rows", {"block_table": torch.zeros(2, 1, dtype=torch.int32), "key": half(1, 128, 32)}),
        (
            "width of paged KV",
            {
                "query": half(2, 1, 128, 512),
                "num_heads": 128,
                "num_key_value_heads": 128,
                "key": torch.zeros(2, 16, 65536, dtype=torch.float16),
                "block_size": 16,
            },
        ),
    ],
)
def test_a_decode_that_breaks_a_rule_is_refused(npu: ModuleType, rule: str, changes: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match=re.escape(RULES[rule]["means"])):
        decode(npu, **changes)


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("page of a prefill", {"block_size": 16, "key": half(16, 16, 32), "actual_seq_lengths_kv": [5, 16]}),
        ("compressed mask", {"atten_mask": None}),
        ("compressed mask", {"atten_mask": MASK[:128, :128]}),
        ("mask type", {"atten_mask": MASK.half()}),
        ("lower triangle", {"atten_mask": ~MASK}),
        ("modes", {"sparse_mode": 9}),
        ("band", {"sparse_mode": 4, "pre_tokens": -1, "next_tokens": 0}),
        ("heads and dims", {"query": half(2, 5, 128, 512), "num_heads": 128, "key": half(2, 128, 1024)}),
        ("pages of all rows", {"block_table": torch.zeros(2, 1, dtype=torch.int32), "key": half(1, 128, 32)}),
    ],
)
def test_a_prefill_that_breaks_a_rule_is_refused(npu: ModuleType, rule: str, changes: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match=re.escape(RULES[rule]["means"])):
        prefill(npu, **changes)


CACHE = (4, 16, 2, 16)
OTHERS: list[tuple[str, Callable[[ModuleType], Any]]] = [
    ("norm type", lambda npu: npu.npu_rms_norm(half(16), half(16))),
    ("norm type", lambda npu: npu.npu_rms_norm(half(2, 16).double(), half(16).double())),
    ("norm weight", lambda npu: npu.npu_rms_norm(half(2, 16), torch.randn(16))),
    ("added norm", lambda npu: npu.npu_add_rms_norm(torch.randn(2, 16), torch.randn(2, 16), torch.randn(16))),
    ("added alike", lambda npu: npu.npu_add_rms_norm(half(2, 16), half(1, 16), half(16))),
    ("gate type", lambda npu: npu.npu_swiglu(half(2, 16).double())),
    ("rotary dim", lambda npu: turn(npu, half(3, 4, 32), half(3, 1, 32))),
    ("rotary types", lambda npu: turn(npu, half(3, 4, 64), torch.randn(3, 1, 64))),
    ("rotary angles", lambda npu: turn(npu, half(3, 4, 64), half(3, 64))),
    ("rotary layout", lambda npu: turn(npu, half(3, 4, 64), half(3, 1, 64), layout="NTD")),
    ("rotary mode", lambda npu: turn(npu, half(3, 4, 64), half(3, 1, 64), rotary_mode="interleave")),
    ("scatter mode", lambda npu: scatter(npu, cache_mode="PA_NZ")),
    ("scatter types", lambda npu: scatter(npu, cache=torch.zeros(CACHE))),
    ("scatter slots", lambda npu: scatter(npu, slots=torch.tensor([1.0, 2.0]))),
    ("scatter range", lambda npu: scatter(npu, slots=torch.tensor([1, 64]))),
    ("scatter range", lambda npu: scatter(npu, slots=torch.tensor([1, 1]))),
    ("scatter layout", lambda npu: scatter(npu, cache=half(64, 2, 16))),
    ("scatter contiguous", lambda npu: scatter(npu, new=half(2, 16, 2).transpose(1, 2))),
]


def turn(npu: ModuleType, query: torch.Tensor, angles: torch.Tensor, **options: str) -> Any:
    return npu.npu_apply_rotary_pos_emb(query, query.clone(), angles, angles, **{"layout": "TND"} | options)


def scatter(npu: ModuleType, **changes: Any) -> None:
    given = {
        "new": half(2, 2, 16),
        "cache": half(*CACHE),
        "slots": torch.tensor([5, 63]),
        "cache_mode": "Norm",
    } | changes
    new, cache = given["new"], given["cache"]
    npu.npu_scatter_pa_kv_cache(new, new, cache, cache.clone(), given["slots"], cache_mode=given["cache_mode"])


@pytest.mark.parametrize(("rule", "call"), OTHERS, ids=[rule for rule, _ in OTHERS])
def test_another_operator_whose_rule_is_broken_refuses(
    npu: ModuleType, rule: str, call: Callable[[ModuleType], Any]
) -> None:
    with pytest.raises(Misuse, match=re.escape(RULES[rule]["means"])):
        call(npu)


# ------------------------------------------------------------------------------------------------- where it is from


def test_the_double_of_the_device_has_the_signatures_of_the_real_one() -> None:
    for name, expected in PROTOTYPES["functions"].items():
        owner, _, function = name.rpartition(".")
        double = getattr(getattr(npu_device, owner or "Device"), function)
        own = [each.replace(annotation=inspect.Parameter.empty) for each in parameters(double)]
        assert own == parameters_of(expected), name


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Without self or cls."""
    return list(inspect.signature(function).parameters.values())[1:]


def parameters_of(text: str) -> list[inspect.Parameter]:
    namespace: dict[str, Any] = {}
    exec(f"def function{text}: ...", namespace)
    found = inspect.signature(namespace["function"]).parameters.values()
    return [each for each in found if each.name not in ("self", "cls")]


def test_a_documented_prototype_is_read() -> None:
    read = signature("torch_npu.f(Tensor self, int[]? lengths, *, str? mode='x', layout)")
    assert str(read) == "(self, lengths, *, mode=\"'x'\", layout)"


@pytest.mark.slow
def test_prototypes_and_rules_are_those_of_the_published_wheel(tmp_path: Path) -> None:
    download = (
        "pip download --quiet --no-deps --only-binary :all: --python-version 3.11 --platform manylinux_2_28_x86_64"
    )
    command = [sys.executable, "-m", *download.split(), "--dest", str(tmp_path), "torch-npu==2.13.0"]
    subprocess.run(command, check=True, timeout=110)
    wheel = Wheel(next(tmp_path.glob("*.whl")))
    assert wheel.prototypes() == PROTOTYPES
    documentation = wheel.documentation()
    assert [rule for rule, each in RULES.items() if each["text"] not in documentation[each["of"]]] == []
