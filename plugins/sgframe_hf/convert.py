"""The converter, run as a child (``python -m sgframe_hf.convert KIND SOURCE TARGET``) so that its caller loads no torch.

``gguf``: a GGUF file becomes a Hugging Face folder. ``tokenizer``: a folder whose tokenizer is no ``tokenizer.json``
gets one, in another folder. Errors go to standard error; the status is 1.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from sgframe.errors import ModelError
from sgframe_hf.gguf_facts import GgufFacts


def convert_gguf(source: Path, target: Path) -> None:
    """Write ``source`` as config, safetensors weights and tokenizer into the existing folder ``target``.

    Quantised and 16-bit weights become bfloat16, float32 ones stay float32.
    """
    facts = GgufFacts(source)
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    config = AutoConfig.from_pretrained(**where)
    if (scaling := facts.rope_parameters(getattr(config, "rope_parameters", {}).get("rope_theta", 0.0))) is not None:
        config.rope_parameters = scaling
    dtype = torch.float32 if facts.float32 else torch.bfloat16
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        **where, config=config, dtype=dtype, quantization_config=GgufConfig(dequantize=True), output_loading_info=True
    )
    model, report = loaded
    if report["missing_keys"]:
        raise ModelError(f"the GGUF lacks weights that its architecture needs: {sorted(report['missing_keys'])[:5]}")
    model.generation_config.eos_token_id = facts.end_ids()
    model.save_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(target)
    _correct_tokenizer(target / "tokenizer.json", facts)


def _correct_tokenizer(path: Path, facts: GgufFacts) -> None:
    document = json.loads(path.read_text("utf-8"))
    if (size := len(document["model"]["vocab"])) != len(facts.tokens):
        raise ModelError(f"the GGUF has {len(facts.tokens)} tokens, the converted tokenizer {size}")
    facts.correct_tokenizer(document, frozenset(GGUF_PRE_TOKENIZER_SPLITS))
    path.write_text(json.dumps(document, ensure_ascii=False), "utf-8")


def convert_tokenizer(source: Path, target: Path) -> None:
    """Write the tokenizer in folder ``source`` as ``tokenizer.json`` into the existing folder ``target``."""
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise ModelError(f"the tokenizer {type(tokenizer).__name__} in {source} has no tokenizer.json form")
    tokenizer.save_pretrained(target)


def _end_with_parent() -> None:
    """The parent holds our standard input open; its end means that nobody wants the result any more."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def main() -> int:
    """Run the conversion that the command line names."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kind, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    try:
        {"gguf": convert_gguf, "tokenizer": convert_tokenizer}[kind](source, target)
    except (ModelError, ValueError, OSError, NotImplementedError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
