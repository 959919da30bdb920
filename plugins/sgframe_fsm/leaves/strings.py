"""JSON strings within a spec, as expressions.

Owns lengths, patterns, formats and exclusions together. Knows nothing of schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from sgframe_fsm.expressions.memoising import per_store
from sgframe_fsm.expressions.partitions import SINGLE
from sgframe_fsm.expressions.risk import is_risky
from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.leaves.formats import format_expression
from sgframe_fsm.leaves.json_text import JsonCharacters
from sgframe_fsm.leaves.lengths import Lengths, bounded_pattern
from sgframe_fsm.regex import compile_regex


@dataclass(frozen=True)
class StringSpec:
    """Strings for which all of this holds.

    Attributes:
        min_length, max_length: in code points; None is no bound.
        patterns: ECMA-262 regular expressions, each found somewhere in the string.
        not_patterns: ones found nowhere in it.
        formats: names out of ``formats.FORMATS``.
        excluded: strings that it is not, in whatever spelling.
    """

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    not_patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()


@per_store
def string_expression(store: Store, spec: StringSpec) -> Expr:
    """The strings of ``spec`` with their quotes, as a lexeme; NOTHING when there is none.

    In every spelling; but in formats, and where strings are excluded, only in plain ones (see JsonCharacters). Raises the
    errors of ``compile_regex``.
    """
    alphabet = JsonCharacters(store, plain=bool(spec.excluded))
    parts = _parts(store, spec, alphabet)
    everything = store.lexeme(_quoted(store, parts))
    if not spec.excluded:
        return everything
    excluded = store.union(alphabet.spellings(text) for text in sorted(spec.excluded))
    return store.lexeme(_quoted(store, [*parts, store.complement(excluded)]), everything)


def risky_strings(store: Store) -> Iterator[tuple[StringSpec, Expr]]:
    """Of what was built in ``store``, the strings that an author's patterns may make too large to be served."""
    built: dict[tuple[StringSpec], Expr] = store.memory.get(string_expression.__wrapped__, {})  # type: ignore[attr-defined]
    for (spec,), strings in built.items():
        if (spec.patterns or spec.not_patterns) and is_risky(store, strings, escape=SINGLE[ord("\\")]):
            yield spec, strings


def admits(store: Store, spec: StringSpec, text: str) -> bool:
    """Whether ``text`` is a string of ``spec``."""
    if text in spec.excluded or len(text) < spec.min_length:
        return False
    if spec.max_length is not None and len(text) > spec.max_length:
        return False
    content = json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="surrogatepass")
    wanted = [_matching(store, pattern, True) for pattern in spec.patterns]
    wanted += (format_expression(store, name) for name in spec.formats)
    unwanted = (_matching(store, pattern, True) for pattern in spec.not_patterns)
    return all(store.accepts(one, content) for one in wanted) and not any(
        store.accepts(one, content) for one in unwanted
    )


def try_pattern(store: Store, pattern: str) -> None:
    """Raises InvalidRegex or UnsupportedRegex where ``pattern`` may not stand in a spec."""
    _matching(store, pattern, False)


@per_store
def _matching(store: Store, pattern: str, plain: bool) -> Expr:
    return compile_regex(store, pattern, JsonCharacters(store, plain=plain), search=True)


def _quoted(store: Store, parts: list[Expr]) -> Expr:
    content = store.intersection(parts) if len(parts) > 1 else parts[0]
    return store.sequence((store.literal(b'"'), content, store.literal(b'"')))


def _parts(store: Store, spec: StringSpec, alphabet: JsonCharacters) -> list[Expr]:
    """Languages whose intersection is the content of the strings of ``spec``, exclusions aside."""
    lengths, patterns = (spec.min_length, spec.max_length), list(spec.patterns)
    parts = [format_expression(store, name) for name in spec.formats]
    bounded = bounded_pattern(store, patterns[0], alphabet, lengths) if patterns and lengths != (0, None) else None
    if bounded is not None:
        parts.append(bounded)
        del patterns[0]
    parts += (_matching(store, pattern, alphabet.plain) for pattern in patterns)
    if bounded is None and not _has_lengths(store, parts, lengths):
        parts.append(store.repeat(alphabet.any_character, *lengths))
    return parts + [store.complement(_matching(store, pattern, alphabet.plain)) for pattern in spec.not_patterns]


def _has_lengths(store: Store, parts: list[Expr], lengths: Lengths) -> bool:
    """Whether it is plain that ``parts`` have no text of other lengths."""
    if lengths == (1, None):
        return not all(map(store.nullable, parts))
    return lengths == (0, None) and bool(parts)
