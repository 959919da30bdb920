"""``sgframe simulate``: what it prints, what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sgframe_cli.group import main

ROWS = [(1000 * name, 8, 3, [name % 3, 10 + name]) for name in range(12)]
KEYS = [
    "policy", "cache", "eviction", "slots", "requests", "refused", "hit_rate", "ttft_p50", "ttft_p99", "max_wait", "seconds",
    "steps", "retractions", "evicted_tokens", "wall_seconds", "infinite_hit_rate", "belady_hit_rate",
]  # fmt: skip


@pytest.fixture
def trace(trace_file: Callable[[Sequence[object]], Path]) -> Path:
    return trace_file(ROWS)


def run(trace: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["simulate", str(trace), "--block", "4", "--jobs", "1", *options])


def rows(trace: Path, *options: str) -> list[dict]:
    return json.loads(run(trace, "--json", *options).stdout)


def test_every_combination_is_a_run(trace: Path) -> None:
    found = rows(trace, "--policy", "fcfs,lpm", "--cache", "radix,none", "--eviction", "lru,fifo", "--slots", "64,128")
    assert [(row["policy"], row["cache"], row["eviction"], row["slots"]) for row in found] == [
        (policy, cache, eviction, slots)
        for policy in ("fcfs", "lpm")
        for cache, eviction in (("radix", "lru"), ("radix", "fifo"), ("none", None))
        for slots in (64, 128)
    ]
    assert all(list(row) == KEYS for row in found)


def test_the_same_command_gives_the_same_figures(trace: Path) -> None:
    first, second = (
        [row | {"wall_seconds": 0} for row in rows(trace, "--policy", "fcfs,lpm", "--slots", "24")] for _ in range(2)
    )  # fmt: skip
    assert first == second


def test_the_hit_rate_is_in_percent_of_prompt_tokens(trace: Path) -> None:
    (row,) = rows(trace, "--slots", "1000", "--users", "1")
    assert row["hit_rate"] == pytest.approx(100 * 9 * 4 / 96)
    assert row["infinite_hit_rate"] == row["belady_hit_rate"] == row["hit_rate"]


def test_the_table_has_a_line_for_each_run(trace: Path) -> None:
    lines = run(trace, "--policy", "fcfs,lpm", "--slots", "64", "--users", "1").stdout.splitlines()
    assert [line.split()[:6] for line in lines] == [
        ["POLICY", "CACHE", "EVICTION", "SLOTS", "HIT", "%"],
        ["fcfs", "radix", "lru", "64", "37.50", "37.50"],
        ["lpm", "radix", "lru", "64", "37.50", "37.50"],
    ]


def test_the_progress_goes_to_standard_error(trace: Path) -> None:
    assert "1 × 12 requests" in run(trace, "--slots", "64").stderr


def test_the_parts_settings_and_the_way_of_serving_are_honoured(trace: Path) -> None:
    (quick,) = rows(trace, "--slots", "64", "--rate", "2", "--requests", "4")
    (slow,) = rows(trace, "--slots", "64", "--rate", "1", "--requests", "4")
    assert (quick["requests"], int(quick["seconds"]), int(slow["seconds"])) == (4, 1, 3)
    (fifo,) = rows(trace, "--slots", "64", "--set", "radix.eviction=fifo")
    assert fifo["eviction"] == "fifo"
    assert len(rows(trace, "--slots", "64", "--policy", "fcfs,lpm", "--set", "lpm.max_overtaken=3")) == 2
    (paged,) = rows(trace, "--slots", "64", "--page-size", "8", "--users", "1")
    assert paged["hit_rate"] == 0


def test_a_profile_makes_the_machine(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text("step = 100.0")
    (row,) = rows(trace, "--slots", "64", "--users", "1", "--profile", str(tmp_path / "slow.toml"))
    assert 100 < row["ttft_p50"] < 101


@pytest.mark.parametrize("name", ["plot.svg", "plot.png"])
def test_a_plot_is_drawn(trace: Path, tmp_path: Path, name: str) -> None:
    assert run(trace, "--policy", "fcfs,lpm", "--slots", "24,64", "--plot", str(tmp_path / name)).exit_code == 0
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")


def test_the_same_runs_draw_the_same_plot(trace: Path, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        run(trace, "--slots", "24,64", "--plot", str(tmp_path / name))
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_plugin_can_be_left_out(trace: Path) -> None:
    assert len(rows(trace, "--policy", "fcfs", "--slots", "64", "--plugin", "no:lpm")) == 1


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--policy fcsf", "no plugin offers the policy 'fcsf'.*did you mean 'fcfs'.*on offer: .*fcfs, lpm"),
        ("--cache radx", "no plugin offers the cache 'radx'.*on offer: .*none, radix"),
        ("--eviction lruu", r"radix.eviction: must be .*, lfu, lru, .*found 'lruu' \(--eviction\)"),
        ("--cache none --eviction lru", r"--eviction: nobody reads it: of the chosen caches \(none\) none"),
        ("--eviction lru --set radix.eviction=fifo", "--eviction and --set radix.eviction say the same thing"),
        ("--set radix.ghost=1", "plugin.radix.ghost: unknown setting"),
        ("--policy fcfs --set lpm.x=1", "--set lpm.…: 'lpm' is none of the policies and caches that are simulated"),
        ("--slots 0", "0 is not in the range"),
        ("--rate 1e-300", "1e-300 is not in the range"),
        ("--slots 7", "7 slots hold no prompt of the trace, the shortest has 8 tokens"),
        ("--users 2 --rate 2", "--users is a closed loop and --rate an open one: drop one"),
        ("--block-level --page-size 8", "--block-level serves nobody, so --page-size means nothing: drop one"),
        ("--max-step-tokens 8 --max-running 9", "--max-step-tokens 8 is less than --max-running 9"),
        ("--plugin lpm", "only no:NAME is meant here; choose by --policy and --cache"),
        ("--policy lpm --plugin no:lpm", "no plugin offers the policy 'lpm'.*'lpm' .* is blocked"),
        ("--plot plot.pdf", "a plot is written as .png or .svg, found '.pdf'"),
        ("--plot nowhere/plot.png", "there is no folder nowhere"),
        ("--profile absent.toml", "absent.toml: cannot be read"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_advice(trace: Path, options: str, message: str) -> None:
    result = run(trace, *options.split())
    assert result.exit_code == 2
    assert re.search(message, result.stderr, re.DOTALL), result.stderr


def test_a_plot_without_matplotlib_says_how_to_get_it(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe_simulator.plot.find_spec", lambda name: None)
    assert "pip install 'sgframe[plot]'" in run(trace, "--plot", "plot.svg").stderr
