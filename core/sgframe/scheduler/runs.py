"""Free pages as runs of consecutive ones. Owns which pages are free; knows neither slots nor who takes them.

Neighbouring runs are one. Runs are kept by their ends, so that a page finds its neighbours, and by the power of two below
their length, so that one which is long enough is found without a search (Knuth, TAOCP vol. 1, 2.5; the "two-level
segregated fit" of Masmano et al. 2004 with one level). What takes or gives a run costs about a microsecond, however long
the run.
"""

from __future__ import annotations

from collections.abc import Iterator


class FreeRuns:
    """Runs ``start … end - 1``. Among those that fit, the one freed last is taken: its memory was touched last."""

    def __init__(self, pages: int) -> None:
        self.pages = 0
        """How many pages are free."""
        self._end: dict[int, int] = {}
        """By the start."""
        self._start: dict[int, int] = {}
        """By the end."""
        self._by_size: list[dict[int, None]] = [{} for _ in range(pages.bit_length() + 1)]
        """The starts of the runs with so many bits in their length, the one freed last at the end."""
        if pages:
            self.add(0, pages)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Start and end of each run."""
        return iter(self._end.items())

    def add(self, start: int, end: int) -> None:
        """Pages ``start … end - 1`` are free from now on; they were not."""
        self.pages += end - start
        if (before := self._start.get(start)) is not None:
            self._drop(before, start)
            start = before
        if (after := self._end.get(end)) is not None:
            self._drop(end, after)
            end = after
        self._keep(start, end)

    def take(self, most: int, at: int) -> tuple[int, int]:
        """Take a run of at most ``most`` pages: what is free from ``at`` on, else as many as there are in a row.

        There must be a free page.
        """
        start = at if at in self._end else self._fit(most)
        whole = self._end[start]
        end = min(whole, start + most)
        self._drop(start, whole)
        if end < whole:
            self._keep(end, whole)
        self.pages -= end - start
        return start, end

    def check(self) -> None:
        """Raise AssertionError if runs meet or are counted wrongly."""
        assert self._end == {start: end for end, start in self._start.items()}, "ends and starts do not agree"
        assert not self._end.keys() & self._start.keys(), "neighbouring runs are apart"
        assert self.pages == sum(end - start for start, end in self._end.items()), f"there are not {self.pages} free"
        by_size = {start: size for size, starts in enumerate(self._by_size) for start in starts}
        assert by_size == {start: (end - start).bit_length() for start, end in self._end.items()}, "sizes are wrong"

    def _fit(self, count: int) -> int:
        """The start of a run with ``count`` pages, none much longer if that can be; else of one of the longest. It is no
        more among those by size."""
        for starts in self._by_size[count.bit_length() :]:
            if starts:
                start, _ = starts.popitem()
                if self._end[start] - start >= count:
                    return start
                starts[start] = None
        return next(starts for starts in reversed(self._by_size) if starts).popitem()[0]

    def _keep(self, start: int, end: int) -> None:
        self._end[start], self._start[end] = end, start
        self._by_size[(end - start).bit_length()][start] = None

    def _drop(self, start: int, end: int) -> None:
        del self._end[start], self._start[end]
        self._by_size[(end - start).bit_length()].pop(start, None)
