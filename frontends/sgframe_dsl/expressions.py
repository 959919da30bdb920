"""What a program adds to a state: text, ``gen``, ``select``, chat turns, and several of them in a row. Plain data; wrong
arguments are refused here, where they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, get_args

from sgframe.assembly.hints import nearest
from sgframe_dsl.options import Sampling, sampling_params
from sgframe_dsl.values import Shape, checked_choices, shape_of
from sgframe_programs.parts import Begin, End, Method, Part, Text

METHODS: tuple[Method, ...] = get_args(Method)


class Expression:
    """Something a state can be extended by; ``+`` puts it before or after text and other expressions."""

    def __add__(self, other: object) -> Series:
        if not isinstance(other, str | Expression):
            return NotImplemented
        return Series((self, other))

    def __radd__(self, other: object) -> Series:
        if not isinstance(other, str):
            return NotImplemented
        return Series((other, self))

    def __format__(self, spec: str) -> str:
        raise TypeError(
            f"{type(self).__name__.lower()} cannot stand in an f-string, which would write what it looks like; use +"
        )


@dataclass(frozen=True)
class Gen(Expression):
    """Text that the model writes; ``name`` is the variable it becomes, if any."""

    name: str | None
    n: int
    shape: Shape
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Select(Expression):
    """The likeliest of ``choices`` by ``method``."""

    name: str
    choices: tuple[str, ...]
    method: Method


@dataclass(frozen=True)
class Turn(Expression):
    """A chat turn of ``role``."""

    role: str
    content: tuple[str | Expression, ...]


@dataclass(frozen=True)
class Series(Expression):
    """One after the other."""

    items: tuple[str | Expression, ...]


def gen(
    name: str | None = None,
    *,
    n: int = 1,
    regex: str | None = None,
    json_schema: dict[str, Any] | bool | str | type | None = None,
    choices: Sequence[str] | None = None,
    dtype: type | None = None,
    **options: Unpack[Sampling],
) -> Gen:
    """The model goes on writing; the value of variable ``name`` is the text.

    At most one of: ``regex``, which the whole text matches; ``json_schema`` (a dict, its JSON text or a pydantic model,
    whose fields are all that there may be), and the value is what the JSON stands for; ``choices``, of which the text is
    one; ``dtype`` int, float or bool, and the value is one. With ``n`` over 1 the value is a list of so many, and the text
    goes on with the first. The other options are those of ``Sampling``; unsaid ones are the run's, or else the defaults of
    ``sgframe.SamplingParams``.

    Raises TypeError or ValueError for arguments that no backend would take.
    """
    _check_name("gen", name)
    asker = f"gen({name!r})" if name else "gen()"
    try:
        shape = shape_of(regex, json_schema, choices, dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{asker}: {error}") from None
    sampling_params(asker, options, n)
    said = {option: value for option, value in options.items() if value is not None}
    return Gen(name, n, shape, said)


def select(name: str, choices: Sequence[str], method: Method = "token_length_normalized") -> Select:
    """The one of ``choices`` that the model finds likeliest goes on the text, and is the value of variable ``name``.

    ``method``: ``token_length_normalized`` compares mean log-probabilities of the tokens, ``greedy_token`` goes along the
    likeliest next token, ``unconditional_normalized`` compares how much likelier the text before makes a choice. Raises
    TypeError or ValueError.
    """
    if name is None:
        raise TypeError("select() needs the name of a variable first")
    _check_name("select", name)
    if method not in METHODS:
        raise ValueError(f"select({name!r}): method is one of {', '.join(METHODS)}, found {method!r}{_near(method)}")
    try:
        return Select(name, checked_choices(choices), method)
    except (TypeError, ValueError) as error:
        raise type(error)(f"select({name!r}): {error}") from None


def role(name: str, *content: str | Expression) -> Turn:
    """A chat turn of role ``name``. Raises TypeError, and ValueError for a turn in a turn."""
    check_role(name)
    for item in content:
        if not isinstance(item, str | Expression):
            raise TypeError(f"{name} takes text and expressions, found {item!r}")
    turn = Turn(name, content)
    if any(isinstance(inner, Begin) for item in content for inner in pieces(item)):
        raise ValueError(f"a turn of {name!r} has another turn in it; roles do not nest")
    return turn


def system(*content: str | Expression) -> Turn:
    """A chat turn of the system."""
    return role("system", *content)


def user(*content: str | Expression) -> Turn:
    """A chat turn of the user."""
    return role("user", *content)


def assistant(*content: str | Expression) -> Turn:
    """A chat turn of the assistant."""
    return role("assistant", *content)


def check_role(name: object) -> None:
    """Raise TypeError unless ``name`` can be a role's."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"a role is named by a str, found {name!r}")


def pieces(item: str | Expression) -> Iterator[Part | Gen | Select]:
    """``item`` flattened; no empty text."""
    match item:
        case str():
            if item:
                yield Text(item)
        case Turn(name, content):
            yield Begin(name)
            for inner in content:
                yield from pieces(inner)
            yield End()
        case Series(items):
            for inner in items:
                yield from pieces(inner)
        case Gen() | Select():
            yield item


def _check_name(asker: str, name: object) -> None:
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"{asker}: the name of a variable is a str, found {name!r}")


def _near(method: object) -> str:
    return nearest(method, METHODS) if isinstance(method, str) else ""
