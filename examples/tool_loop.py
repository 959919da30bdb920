"""A loop of tool calls through OpenAI's client: the model calls, its calls are carried out, and it answers.

sgframe serve
python examples/tool_loop.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

from openai import OpenAI

WEATHER = {"Rome": "sunny", "Paris": "rainy", "Oslo": "snowy"}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": list(WEATHER)}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
MOST_TURNS = 4


def get_weather(city: str) -> str:
    return WEATHER[city]  # no other city can come: the arguments match the schema


FUNCTIONS = {"get_weather": get_weather}


def converse(client: OpenAI, question: str) -> str:
    """The model's answer, after at least one call and the turns that it takes."""
    model = client.models.list().data[0].id
    messages: list[Any] = [{"role": "user", "content": question}]
    for turn in range(MOST_TURNS):
        answer = client.chat.completions.create(
            model=model,
            messages=messages,
            tools=TOOLS,
            tool_choice="auto" if turn else "required",
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=200,
        )
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message)
        for call in message.tool_calls:
            assert call.type == "function", "tools of no other type were offered"
            print("called:", call.function.name, call.function.arguments)
            result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "no answer yet"


def main(url: str) -> None:
    client = OpenAI(base_url=url, api_key="none")
    print("answered:", converse(client, "What is the weather in Rome?"))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["http://127.0.0.1:30000/v1"])
