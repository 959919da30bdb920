"""Reads the prototypes that the double is declared from out of a wheel of torch-npu: as a zip, never imported.

Writes them anew with ``python tests/ascend/npu_wheel.py torch_npu-2.13.0-….whl > tests/ascend/torch_npu_prototypes.json``.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

OPERATORS = (
    "npu_add_rms_norm",
    "npu_apply_rotary_pos_emb",
    "npu_fused_infer_attention_score",
    "npu_rms_norm",
    "npu_scatter_pa_kv_cache",
    "npu_swiglu",
)
FUNCTIONS = {
    "torch_npu/npu/__init__.py": ("device_count", "mem_get_info"),
    "torch_npu/npu/memory.py": ("empty_cache", "memory_reserved"),
    "torch_npu/npu/streams.py": ("Stream.__new__", "Event.__new__", "Event.query", "Event.record", "Event.synchronize"),
    "torch_npu/npu/utils.py": ("set_device", "current_stream", "stream"),
}
SCHEMAS = "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml"
DOCUMENTATION = "torch_npu/_op_plugin_docs.py"


class Wheel:
    """The wheel at ``path``."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)

    def prototypes(self) -> dict[str, Any]:
        """What torch_npu_prototypes.json holds."""
        schemas = self._schemas()
        return {
            "source": f"the wheel torch-npu {self._version()}: {SCHEMAS} (schema), {DOCUMENTATION} (documented)",
            "licence": "BSD-3-Clause, Copyright (c) 2020, Huawei Technologies Co., Ltd",
            "operators": {name: {"schema": schemas[name], "documented": self._documented(name)} for name in OPERATORS},
            "functions": {name: self._signature(file, name) for file, names in FUNCTIONS.items() for name in names},
        }

    def documentation(self) -> dict[str, str]:
        """The text on each documented operator, white space made single blanks."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of its backslashes
            tree = ast.parse(self._text(DOCUMENTATION))
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        texts = ([each.value for each in call.args if isinstance(each, ast.Constant)] for call in calls)
        return {pair[0]: " ".join(pair[1].split()) for pair in texts if len(pair) == 2}

    def _documented(self, name: str) -> str:
        """The prototype in the documentation's words, empty where it has none."""
        text = self.documentation().get(name, "")
        start = text.find(f"torch_npu.{name}(")
        return text[start : text.index("->", start)].strip() if start >= 0 else ""

    def _schemas(self) -> dict[str, str]:
        entries = yaml.safe_load(self._text(SCHEMAS))["custom"]
        return {entry["func"].partition("(")[0]: entry["func"] for entry in entries}

    def _signature(self, file: str, name: str) -> str:
        for node in _functions(ast.parse(self._text(file))):
            if node[0] == name:
                return f"({ast.unparse(node[1].args)})"
        raise LookupError(f"{file} has no {name}")

    def _version(self) -> str:
        return self._text("torch_npu/version.py").split("'")[1]

    def _text(self, name: str) -> str:
        return self._zip.read(name).decode()


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, ast.FunctionDef))


if __name__ == "__main__":
    json.dump(Wheel(Path(sys.argv[1])).prototypes(), sys.stdout, indent=2, ensure_ascii=False)
    print()
