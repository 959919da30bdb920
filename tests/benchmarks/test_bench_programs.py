"""Programs by the language and by plain calls: they run, do the same work, and are counted right. No test says how fast."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from drive.client import Endpoint, RequestFailed
from drive.machine import Machine
from drive.programs_client import Client, Scoring
from drive.programs_minimum import Call, Minimum
from drive.programs_report import Report, RowReport
from drive.programs_rows import ROWS
from drive.programs_select import Selects
from drive.programs_sides import Measured
from drive.prompts import Texts
from servers import SIMULATED, served

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs.py"

# ------------------------------------------------------------------------------------------ the fewest tokens


def letters(text: str, at_start: bool) -> list[int]:
    return list(text.encode())


def fewest(*calls: Call) -> int:
    return Minimum(letters).tokens_for(calls)


def test_each_prefix_is_computed_once() -> None:
    assert fewest(Call((), "abcdef", 6), Call((), "abcxy", 5)) == 6 + 2


def test_the_last_token_of_a_known_prompt_is_computed_again() -> None:
    assert fewest(*[Call((), "abcdef", 6)] * 4) == 6 + 3


def test_what_was_generated_is_known_but_for_its_last_token() -> None:
    assert fewest(Call((), "ab", 2, output=(7, 8, 9)), Call(("ab", (7, 8, 9)), "cd", 7)) == 2 + 1 + 2


def test_options_are_computed_but_for_their_last_tokens_and_what_they_share_once() -> None:
    options = Call((), "ab", 2, choices=("xy1", "xz", "w"), paths=(tuple(b"xy1"), tuple(b"xz"), tuple(b"w")))
    assert fewest(options) == 2 + len("xy")


def test_a_prompt_ends_where_the_options_part_from_it() -> None:
    joined = Call(("ab",), "c", 2, choices=("d",), paths=(tuple(b"cd"),))  # "c" becomes one with what follows
    assert joined.prompt(letters) == list(b"ab")


def test_calls_of_an_earlier_set_are_known() -> None:
    minimum = Minimum(letters)
    assert [minimum.tokens_for([Call((), text, 4)]) for text in ("abcd", "abxy")] == [4, 2]


def test_a_prompt_of_another_length_than_the_servers_gives_no_minimum() -> None:
    with pytest.raises(ValueError, match="3 tokens by its parts and 5 by the server"):
        fewest(Call((), "abc", 5))


# ------------------------------------------------------------------------------------------ plain calls

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


def met(answer: Answer, scoring: Scoring, use: Callable[[Client], Any]) -> tuple[Client, Any]:
    """A client that has learnt the ways of a server that gives ``answer``, or refuses; and what ``use`` comes to."""

    def respond(request: httpx.Request) -> httpx.Response:
        body = answer(json.loads(request.content))
        return httpx.Response(400 if body is None else 200, json=body or {"error": "no"})

    async def meet() -> tuple[Client, Any]:
        async with httpx.AsyncClient(base_url="http://peer", transport=httpx.MockTransport(respond)) as http:
            client = Client(http, Endpoint("http://peer", {"model": "m"}), scoring)
            await client.learn_ways("a")
            return client, await use(client)

    return asyncio.run(meet())


def able(body: dict[str, Any]) -> dict[str, Any]:
    """Gives ``n`` and echo; an option is as likely as it is long."""
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]] * body.get("n", 1)
    choices = [
        {
            "index": index,
            "text": f"sample {index}",
            "logprobs": {"text_offset": [0, 6, 7], "token_logprobs": [None, -9.0, -float(len(prompt))]},
        }
        for index, prompt in enumerate(prompts)
    ]
    details = {"cached_tokens": 2}
    return {"choices": choices[::-1], "usage": {"prompt_tokens": 8, "prompt_tokens_details": details}}


def unable(body: dict[str, Any]) -> dict[str, Any] | None:
    """Refuses ``n`` and gives no echo; tells what may come next as chats do."""
    if "n" in body:
        return None
    likely = [{"token": " b", "logprob": -1.0}, {"token": " a", "logprob": -2.0}, {"token": "", "logprob": -3.0}]
    text = f"sample {body.get('seed')}"
    return {
        "choices": [{"text": text, "logprobs": {"content": [{"token": " b", "logprob": -1, "top_logprobs": likely}]}}]
    }


def test_options_are_scored_by_the_end_of_echoed_prompts_in_one_request() -> None:
    client, scores = met(able, "echo", lambda client: client.scores("prompt", [" a", " abc"]))
    assert client.ways == "n samples in one request, options compared by echo"
    assert scores == [(-9 - 8) / 2, (-9 - 10) / 2]
    assert client.tally.round_trips == 3
    assert client.tally.cached_tokens == 6


def test_without_echo_options_are_scored_by_the_likeliest_next_tokens() -> None:
    client, scores = met(unable, "echo", lambda client: client.scores("prompt", [" abc", " bcd", " c"]))
    assert client.scoring == "first-token"
    assert scores == [-2, -1, float("-inf")]
    assert client.tally.cached_tokens is None


def test_samples_come_in_one_request_where_there_is_n() -> None:
    _, samples = met(able, "first-token", lambda client: client.samples("prompt", 8, 3, 5))
    assert samples == ["sample 0", "sample 1", "sample 2"]


def test_samples_come_one_by_one_where_there_is_no_n() -> None:
    _, samples = met(unable, "first-token", lambda client: client.samples("prompt", 8, 3, 5))
    assert samples == ["sample 5", "sample 6", "sample 7"]


def test_a_refusal_ends_the_benchmark() -> None:
    with pytest.raises(RequestFailed, match="status 400"):
        met(lambda body: None, "first-token", lambda client: client.text("prompt", 8))


# ------------------------------------------------------------------------------------------ tasks and report


def test_tasks_follow_from_the_seed_and_begin_differently_with_another() -> None:
    for row in ROWS.values():
        one, same, other = (row.tasks(Texts(1.0), seed, 0.2) for seed in ("1", "1", "2"))
        assert one == same
        assert one[0].text[:20] != other[0].text[:20]


def measured(seconds: float, prefilled: int | None, fewest_tokens: int | None = None) -> Measured:
    return Measured(
        seconds=seconds, round_trips=7, prefilled_tokens=prefilled, output_tokens=1234, fewest_tokens=fewest_tokens
    )


def test_a_row_gives_medians_and_ratios() -> None:
    dsl = [measured(2.0, 105, 100), measured(9.0, 95, 100), measured(1.0, 100, 100)]
    row = RowReport.of(ROWS["mc"], 40, dsl, [measured(3.0, 600)] * 3, [measured(5.0, None)] * 3)
    assert (row.gain, row.gain_on_peer) == (1.5, 2.5)
    assert (row.prefilled, row.prefilled_plain) == (1.0, 6.0)


def test_the_tables_show_rows_and_selects() -> None:
    row = RowReport.of(ROWS["mc"], 40, [measured(2.0, 105, 100)], [measured(3.0, None)], [])
    selects = Selects(options="letters", cached=True, four_ms=[11.0, 13.0], one_ms=[10.0], round_trips=1)
    report = Report(
        machine=Machine("a processor", 2, 1.0, 0.0),
        seed=1,
        runs=1,
        scale=1.0,
        concurrency=4,
        ways={"plain": "as it can"},
        rows=[row],
        selects=[selects],
    )
    lines = [line.split() for line in report.tables().splitlines()]
    assert ["mc", "multiple", "choice", "40", "2.000", "3.000", "1.50"] in lines
    assert ["mc", "100", "105", "1.050", "1,234", "1,234", "7", "7"] in lines
    assert ["letters", "cached", "12.0", "10.0", "1.20", "1"] in lines


# ------------------------------------------------------------------------------------------ a whole run


def test_both_ways_do_the_same_work_and_a_select_is_one_round_trip(tmp_path: Path) -> None:
    sizes = ["--scale", "0.1", "--runs", "1", "--selects", "1", "--concurrency", "1"]
    with served(*SIMULATED) as server:
        done = subprocess.run(
            [sys.executable, str(PROGRAMS), "--url", server.url, *sizes, "--json", str(tmp_path / "report")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report").read_text())
    rows = {row["row"]: (row["dsl"][0], row["plain"][0]) for row in report["rows"]}
    votes = rows.pop("sc")
    for dsl, plain in rows.values():
        assert dsl["output_tokens"] == plain["output_tokens"]
    spared = votes[1]["output_tokens"] - votes[0]["output_tokens"]
    assert 0 <= spared <= 4 * (60 + 4), "of 8 chains those that a vote of the others has decided without"
    assert rows["judge"][0]["output_tokens"] == 4 * 32 + 48
    assert rows["mc"][0]["round_trips"] == rows["mc"][1]["round_trips"] == 4
    assert rows["mc"][0]["prefilled_tokens"] == rows["mc"][0]["fewest_tokens"]
    assert rows["mc"][1]["prefilled_tokens"] > 2 * rows["mc"][0]["fewest_tokens"]
    assert [select["round_trips"] for select in report["selects"]] == [1] * 4
