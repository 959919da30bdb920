"""Structured output through OpenAI's client: a pydantic model, a regular expression, a choice.

sgframe serve
python examples/structured_output.py
"""

from __future__ import annotations

import sys
from typing import Any, Literal

from openai import OpenAI
from pydantic import BaseModel, Field


class Person(BaseModel):
    """Bounds are worth their words: a small model may write a string without end."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)
    city: Literal["Oslo", "Paris", "Rome"]


def main(url: str) -> None:
    client = OpenAI(base_url=url, api_key="none")
    model = client.models.list().data[0].id
    said: Any = {"role": "user", "content": "Ada is 36 and lives in Rome."}

    parsed = client.chat.completions.parse(model=model, messages=[said], response_format=Person, temperature=0)
    print("as a pydantic model:", repr(parsed.choices[0].message.parsed))

    for name, constraint in {"regex": r"[A-Z][a-z]{1,9} is [0-9]{1,3}\.", "choice": ["young", "old"]}.items():
        answer = client.chat.completions.create(
            model=model, messages=[said], temperature=0, extra_body={name: constraint}
        )
        print(f"by {name}:", answer.choices[0].message.content)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["http://127.0.0.1:30000/v1"])
