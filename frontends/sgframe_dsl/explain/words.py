"""What a step is called and what it took, in the words that terminal, picture and page have in common."""

from __future__ import annotations

from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost


def clean(text: str) -> str:
    """On one line, with what a terminal would obey and XML does not allow written as escapes."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def quoted(text: str) -> str:
    """An excerpt, on one line; nothing where there is none."""
    return f"“{clean(text)}”" if text else ""


def excerpt(step: Step) -> str:
    """The end of what it was asked and the beginning of what it gave."""
    return " → ".join(filter(None, (quoted(step.prompt), quoted(step.answer))))


def subject(step: Step) -> str:
    """The name it has, and of a fork how many branches."""
    count = f"×{len(step.branches)}" if step.kind == "fork" else ""
    return " ".join(filter(None, (count, clean(step.name))))


def fault(step: Step) -> str:
    """Why there is no answer; empty when there is one, or none was to be."""
    if step.error:
        return f"failed: {clean(' '.join(step.error.split()))}"
    return "not finished" if step.ended < 0 and step.kind in ("gen", "select") else ""


def computed(cost: Cost) -> int | None:
    """Tokens computed before and beside the answer; None when the backend does not tell."""
    if cost.cached_tokens is None:
        return None
    return cost.prompt_tokens - cost.cached_tokens + cost.scored_tokens


def took(cost: Cost) -> str:
    """The tokens of one call: what it read, and what it wrote."""
    if cost.cached_tokens is None:
        read = [f"{cost.prompt_tokens:,} prompt"]
    else:
        read = [f"{cost.prompt_tokens - cost.cached_tokens:,} computed", f"{cost.cached_tokens:,} reused"]
    if cost.scored_tokens:
        read.append(f"{cost.scored_tokens:,} scored")
    forced = f" ({cost.forced_tokens:,} forced)" if cost.forced_tokens else ""
    return " + ".join(read) + (f" → {cost.output_tokens:,}{forced}" if cost.output_tokens else "")


def duration(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def totals(*traces: Trace) -> str:
    """One line: tokens computed against tokens without sharing, tokens generated, calls, and seconds."""
    seconds = duration(sum(trace.seconds for trace in traces))
    calls = sum(trace.calls for trace in traces)
    if not calls:
        return f"no calls, {seconds}"
    generated = sum(trace.output_tokens for trace in traces)
    return f"{_prompts(traces)}, {generated:,} generated, {counted(calls, 'call')}, {seconds}"


def _prompts(traces: tuple[Trace, ...]) -> str:
    unshared = sum(trace.prompt_tokens for trace in traces)
    told = [trace.computed_tokens for trace in traces]
    if None in told:
        return f"{unshared:,} prompt tokens, of which the backend does not tell what it reused"
    total = sum(filter(None, told))
    ratio = f" ({unshared / total:.1f}×)" if total else ""
    return f"{total:,} prompt tokens computed, {unshared:,} without sharing{ratio}"
