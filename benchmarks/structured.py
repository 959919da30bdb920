"""Measures what jump-forward gains where answers match real JSON Schemas: ``python benchmarks/structured.py --help``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
from drive.client import Endpoint, Request, RequestFailed, complete
from drive.jump_report import Rounds, report_on
from drive.jumps import Load, ask_all
from drive.machine import this_machine
from drive.meeting import first_model
from drive.rows import closed_loop
from drive.schemas import RECORD, Sample, read_samples
from drive.server import ServerFailed, started

GREETING = "Make up a person, and describe them in JSON."


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Asks the server at ``url`` for each of ``samples``."""

    url: str
    model: str | None
    samples: Sequence[Sample]
    load: Load

    def run(self, sides: dict[str, Rounds], runs: int) -> None:
        """``sides`` by the command that starts their server, by turns. Ends the program when one fails."""
        for run in range(runs):
            for command, rounds in sides.items():
                try:
                    with started(command, self.url):
                        asyncio.run(self._run_once(rounds))
                except (RequestFailed, ServerFailed, OSError, httpx.HTTPError) as error:
                    raise SystemExit(f"{command}: {error}") from error
                rates = ", ".join(f"{what} {part.rate:.1f} tok/s" for what, part in rounds.new[-1].parts().items())
                print(f"run {run + 1}, {command}: {rates}", file=sys.stderr)

    async def _run_once(self, rounds: Rounds) -> None:
        name = self.model or first_model(self.url)
        endpoint = Endpoint(self.url, {} if name is None else {"model": name})
        await self._warm_up(endpoint)
        rounds.new.append(await ask_all(endpoint, self.samples, self.load))
        rounds.again.append(await ask_all(endpoint, self.samples, self.load))

    async def _warm_up(self, endpoint: Endpoint) -> None:
        """One unmeasured burst, of a schema that is none of the samples."""
        request = Request(GREETING, self.load.tokens, chat=True, schema=RECORD)

        async def ask(number: int) -> None:
            await complete(endpoint, request)

        await closed_loop(ask, range(self.load.concurrency), self.load.concurrency)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # so that servers are ended
    options = _parser().parse_args()
    samples = read_samples(options.schemas, options.limit)
    load = Load(options.max_tokens, options.concurrency)
    machine = this_machine()
    jumping, plain = Rounds(), Rounds()
    sides = {options.serve: jumping, f"{options.serve} --no-jump-forward": plain}
    Benchmark(options.url, options.model, samples, load).run(sides, options.runs)
    try:
        report = report_on(machine, samples, load, jumping, plain)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    print(msgspec.json.encode(report).decode() if options.json else report.table())
    if options.verbose:
        print(report.details(), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Serve one chat request for each JSON Schema of a file, with and without jump-forward by turns, the "
        "server started afresh for each run. Prints the median tokens per second of the runs, over all and for the "
        "arguments of function calls, their ratio, the share of forced tokens, and whether answers are valid and the same."
    )
    add = parser.add_argument
    add("--serve", metavar="COMMAND", default="sgframe serve", help="starts our server (%(default)s)")
    add("--url", type=lambda url: url.rstrip("/"), default="http://127.0.0.1:30000", help="its address (%(default)s)")
    add("--model", metavar="NAME", help="model to ask for; the first that the server lists if not given")
    add("--schemas", type=Path, required=True, help="lines of {id, group, schema}")
    add("--limit", type=int, metavar="N", help="N of them: always the same, each group in its proportion")
    add("--max-tokens", type=int, default=200, help="of an answer (%(default)s)")
    add("--concurrency", type=int, default=8, help="requests at a time (%(default)s)")
    add("--runs", type=int, default=3, help="how often (%(default)s)")
    add("--json", action="store_true", help="print JSON, and all else to standard error")
    add("--verbose", action="store_true", help="tell to standard error what was refused, is invalid or differs")
    return parser


if __name__ == "__main__":
    main()
