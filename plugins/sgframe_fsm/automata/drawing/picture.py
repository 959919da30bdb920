"""Where everything stands in a picture, in pixels, y downwards; what draws it only follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from sgframe_fsm.automata.automaton import Automaton
from sgframe_fsm.automata.drawing.layers import Arrow, Layers, Place, arrange, arrows_of
from sgframe_fsm.errors import GrammarTooLarge

MOST_STATES = 150
RADIUS = 15.0
MARGIN = 24.0
_ROW = 58.0  # between two places of a layer
_CHARACTER = 6.7  # width of one in a label
_LINE = 14.0  # height of one
_MOST_LABELS = 4  # on one arrow
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Circle:
    center: Point
    name: str
    accepting: bool


@dataclass(frozen=True)
class Curve:
    """A chain of cubic Bézier curves: a start, then two control points and an end for each. The head is at its end."""

    points: tuple[Point, ...]


@dataclass(frozen=True)
class Text:
    """Centered on ``at``."""

    at: Point
    text: str
    title: bool = False


@dataclass(frozen=True)
class Picture:
    width: float
    height: float
    circles: tuple[Circle, ...] = ()
    curves: tuple[Curve, ...] = ()
    texts: tuple[Text, ...] = ()


def picture_of(automaton: Automaton, title: str) -> Picture:
    """Raises GrammarTooLarge for more states than anybody could read."""
    if len(automaton) > MOST_STATES:
        raise GrammarTooLarge(
            f"{title}: an automaton of {len(automaton)} states cannot be read as a picture; the limit is {MOST_STATES}. "
            "Draw a smaller grammar, or only what is left of it after compression"
        )
    arrows = arrows_of(automaton)
    layers = arrange(automaton, arrows)
    at = _positions(layers, arrows)
    lowest = max(y for _, y in at.values())
    circles = tuple(Circle(at[state,], str(state), accepting) for state, accepting in enumerate(automaton.accepting))
    curves = [Curve(_level((at[0,][0] - 2 * RADIUS - 8, at[0,][1]), (at[0,][0] - RADIUS, at[0,][1])))]
    texts = []
    for arrow in arrows:
        if arrow.source == arrow.target:
            points, middle = _loop(at[arrow.source,])
        elif arrow.back:
            lowest += _ROW / 2
            points, middle = _return(at[arrow.source,], at[arrow.target,], lowest)
        else:
            points, middle = _route([at[place] for place in layers.routes[arrow.source, arrow.target]])
        curves.append(Curve(points))
        texts += _labels(arrow, middle)
    return _framed(circles, curves, texts, title)


def stacked(pictures: Sequence[Picture]) -> Picture:
    """One below the other."""
    top = 0.0
    moved = []
    for picture in pictures:
        moved.append(_moved(picture, 0.0, top))
        top += picture.height
    return Picture(
        max(picture.width for picture in pictures),
        top,
        tuple(circle for picture in moved for circle in picture.circles),
        tuple(curve for picture in moved for curve in picture.curves),
        tuple(text for picture in moved for text in picture.texts),
    )


def _positions(layers: Layers, arrows: Sequence[Arrow]) -> dict[Place, Point]:
    rows = _rows(layers)
    widths = _label_widths(arrows)
    at: dict[Place, Point] = {}
    x = 0.0
    for places in layers.places:
        at |= {place: (x, rows[place]) for place in places}
        x += 2 * RADIUS + 34 + max((widths.get(place, 0.0) for place in places), default=0.0)
    return at


def _label_widths(arrows: Sequence[Arrow]) -> dict[Place, float]:
    """How much room the labels right of each state take."""
    widths: dict[Place, float] = {}
    for arrow in arrows:
        width = _CHARACTER * max(map(len, arrow.labels))
        if not arrow.back or arrow.source == arrow.target:
            widths[arrow.source,] = max(widths.get((arrow.source,), 0.0), width)
    return widths


def _rows(layers: Layers) -> dict[Place, float]:
    """The y of each place: beside those that lead to it, as far as the order within its layer and the distance allow."""
    rows: dict[Place, float] = {}
    for places in layers.places:
        wanted = [_mean([rows[place] for place in layers.left.get(place, ())]) for place in places]
        taken: list[float] = []
        for y in wanted:
            taken.append(max(y, taken[-1] + _ROW) if taken else y)
        shift = _mean([y - wish for y, wish in zip(taken, wanted, strict=True)])
        rows |= {place: y - shift for place, y in zip(places, taken, strict=True)}
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _level(start: Point, end: Point) -> tuple[Point, ...]:
    """A curve that leaves and arrives level."""
    half = (start[0] + end[0]) / 2
    return start, (half, start[1]), (half, end[1]), end


def _route(stops: Sequence[Point]) -> tuple[tuple[Point, ...], Point]:
    (first_x, first_y), (last_x, last_y) = stops[0], stops[-1]
    stops = [(first_x + RADIUS, first_y), *stops[1:-1], (last_x - RADIUS, last_y)]
    points = [stops[0]]
    for start, end in pairwise(stops):
        points += _level(start, end)[1:]
    (x, y), (next_x, next_y) = stops[:2]
    return tuple(points), ((x + next_x) / 2, (y + next_y) / 2 - 5)


def _return(start: Point, end: Point, depth: float) -> tuple[tuple[Point, ...], Point]:
    """Below everything, back to the left."""
    low = depth + RADIUS
    points = ((start[0], start[1] + RADIUS), (start[0], low), (end[0], low), (end[0], end[1] + RADIUS))
    middle = (start[1] + end[1] + 2 * RADIUS) / 8 + low * 3 / 4
    return points, ((start[0] + end[0]) / 2, middle)


def _loop(center: Point) -> tuple[tuple[Point, ...], Point]:
    x, y = center
    top = y - RADIUS
    points = ((x - 8, top + 2), (x - 22, top - 26), (x + 22, top - 26), (x + 8, top + 2))
    return points, (x, top - 24)


def _labels(arrow: Arrow, at: Point) -> list[Text]:
    labels = list(arrow.labels)
    if len(labels) > _MOST_LABELS:
        labels[_MOST_LABELS - 1 :] = [f"… {len(labels) - _MOST_LABELS + 1} more"]
    x, y = at
    return [Text((x, y - _LINE * (len(labels) - 1 - line)), label) for line, label in enumerate(labels)]


def _framed(circles: Sequence[Circle], curves: Sequence[Curve], texts: Sequence[Text], title: str) -> Picture:
    """Moved into view, with a margin and the title above."""
    points = [point for curve in curves for point in _stops(curve.points)]
    points += [
        (x + side * RADIUS, y + side * RADIUS) for x, y in (circle.center for circle in circles) for side in (-1, 1)
    ]
    for text in texts:
        half = _CHARACTER * len(text.text) / 2
        points += [(text.at[0] - half, text.at[1] - _LINE), (text.at[0] + half, text.at[1])]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    title_width = _CHARACTER * 1.2 * len(title)
    width = max(right - left, title_width) + 2 * MARGIN
    picture = Picture(width, bottom - top + 3 * MARGIN, tuple(circles), tuple(curves), tuple(texts))
    moved = _moved(picture, MARGIN - left, 2 * MARGIN - top)
    return replace(moved, texts=(*moved.texts, Text((MARGIN + title_width / 2, MARGIN), title, title=True)))


def _stops(points: Sequence[Point]) -> Iterator[Point]:
    """Where a chain of curves starts, and the middle and the end of each."""
    yield points[0]
    for index in range(0, len(points) - 1, 3):
        start, first, second, end = points[index : index + 4]
        yield tuple((a + 3 * b + 3 * c + d) / 8 for a, b, c, d in zip(start, first, second, end, strict=True))  # type: ignore[misc]
        yield end


def _moved(picture: Picture, x: float, y: float) -> Picture:
    return replace(
        picture,
        circles=tuple(replace(circle, center=_shifted(circle.center, x, y)) for circle in picture.circles),
        curves=tuple(Curve(tuple(_shifted(point, x, y) for point in curve.points)) for curve in picture.curves),
        texts=tuple(replace(text, at=_shifted(text.at, x, y)) for text in picture.texts),
    )


def _shifted(point: Point, x: float, y: float) -> Point:
    return point[0] + x, point[1] + y
