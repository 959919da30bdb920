"""One program, three backends: every primitive gives the same in the process, on a server and by an OpenAI endpoint.

The model is the simulated one, which repeats what stands before it, from the first character on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
from servers import SIMULATED, served, wait_for

import sgframe_dsl as sgf
from sgframe import Engine
from sgframe_dsl.backends.engine import EngineBackend


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(model="simulated", backend="simulated", source="simulated", transport="inproc") as engine:
        yield engine


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(*SIMULATED) as server:
        yield server.url


@pytest.fixture(scope="module", params=["engine", "server", "openai"])
def backend(request: pytest.FixtureRequest) -> Iterator[sgf.Backend]:
    match request.param:
        case "engine":
            made: sgf.Backend = EngineBackend(request.getfixturevalue("engine"))
        case "server":
            made = sgf.Server(request.getfixturevalue("url"))
        case _:
            made = sgf.OpenAI(request.getfixturevalue("url"))
    yield made
    made.close()


@sgf.function
def everything(s: sgf.State, word: str) -> None:
    s += word
    s += sgf.gen("again", max_tokens=len(word))
    branches = s.fork(2)
    for index, branch in enumerate(branches):
        branch += f"({index})"
        branch += sgf.gen("echo", max_tokens=3)
    branches.join("concat")
    s.select("choice", [" yes", " no"])
    s += sgf.gen("number", dtype=int, max_tokens=4)


def test_gen_gives_its_text_and_the_state_goes_on_with_it(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State) -> None:
        s += "abc"
        s += sgf.gen("first", max_tokens=4)
        s += sgf.gen("second", max_tokens=3)

    state = program.run(backend=backend)
    assert state["first"].strip("\0") == "abc"  # the beginning-of-text token has no text
    assert state.text() == f"abc{state['first']}{state['second']}"


def test_every_primitive_in_one_program(backend: sgf.Backend) -> None:
    state = everything.run("abcd", backend=backend)
    assert len(state["echo"]) == 2
    assert state["choice"] in (" yes", " no")
    assert isinstance(state["number"], int)
    text = state.text()
    assert text.startswith("abcd")
    assert f"(0){state['echo'][0]}(1){state['echo'][1]}{state['choice']}" in text


def test_branches_are_selected_from_by_vote_function_and_judge(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State, by: object) -> None:
        s += "vote: "
        branches = s.fork(3)
        for branch, word in zip(branches, ("left", "right", "right"), strict=True):
            branch += word
            branch += sgf.gen("answer", choices=[word, "other"], max_tokens=8)
        branches.select(by=by)  # type: ignore[arg-type]

    assert program.run(lambda branch: len(branch.text()), backend=backend).text().startswith("vote: right")
    assert program.run("answer", backend=backend).text().startswith("vote: ")
    assert program.run(sgf.judge("Which?", of="answer"), backend=backend).text().startswith("vote: ")


def test_formats_come_back_as_values(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State) -> None:
        s += "x"
        s += sgf.gen("regex", regex="[0-9]{3}", max_tokens=8)
        s += sgf.gen("choice", choices=["red", "blue"], max_tokens=8)
        s += sgf.gen("flag", dtype=bool, max_tokens=8)
        s += sgf.gen("data", json_schema={"enum": [{"a": 1}]}, max_tokens=16)

    state = program.run(backend=backend)
    assert len(state["regex"]) == 3 and state["regex"].isdigit()
    assert state["choice"] in ("red", "blue")
    assert state["flag"] in (True, False)
    assert state["data"] == {"a": 1}


def test_several_answers_are_a_list_and_the_text_goes_on_with_the_first(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State) -> None:
        s += "abc"
        s += sgf.gen("answers", n=3, max_tokens=3)
        s += "!"

    state = program.run(backend=backend)
    assert len(state["answers"]) == 3
    assert state.text() == f"abc{state['answers'][0]}!"


def test_a_chat_has_messages(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State) -> None:
        s += sgf.system("Be terse.")
        s += sgf.user("Who?")
        s += sgf.assistant(sgf.gen("answer", max_tokens=5))

    state = program.run(backend=backend)
    assert state.messages() == [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": state["answer"]},
    ]


def test_a_stream_tells_the_text_that_there_is_in_the_end(backend: sgf.Backend) -> None:
    stream = everything.run("abcd", backend=backend, stream=True)
    assert "".join(stream.text_iter()) == stream.text()


def test_a_format_that_is_none_fails_at_the_line_that_asked_for_it(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State) -> None:
        s += "x"
        s += sgf.gen("number", regex="(", max_tokens=4)
        s["number"]

    with pytest.raises(sgf.ProgramError, match=r"test_dsl_three_backends\.py:\d+: s \+= sgf\.gen\(\"number\""):
        program.run(backend=backend)


def test_a_batch_of_programs_with_forks_is_answered_in_order(backend: sgf.Backend) -> None:
    @sgf.function
    def program(s: sgf.State, number: int) -> None:
        s += f"item {number:03d}: "
        for branch in (branches := s.fork(2)):
            branch += sgf.gen("echo", max_tokens=8)
        branches.join()

    threads = threading.active_count()
    states = program.run_batch(list(range(200)), backend=backend, concurrency=64)
    assert [state["echo"] for state in states] == [[f"item {number:03d}"[:7]] * 2 for number in range(200)]
    wait_for(lambda: threading.active_count() <= threads + 1, 5)


def test_when_all_is_done_nothing_is_leased(engine: Engine, url: str) -> None:
    def leased() -> list[int]:
        served = httpx.get(f"{url}/server_info").json()["stats"]
        return [engine.stats().leases, engine.stats().slots_leased, served["leases"], served["slots_leased"]]

    everything.run("abcd", backend=engine)
    with sgf.Server(url) as server:
        everything.run("abcd", backend=server)
        wait_for(lambda: leased() == [0, 0, 0, 0], 5)


def test_a_backend_that_was_never_asked_starts_nothing() -> None:
    before = threading.active_count()
    sgf.Server("http://127.0.0.1:1").close()
    assert threading.active_count() == before
