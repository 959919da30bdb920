"""From ECMA-262 regular expressions to those of the Rust crate ``regex``, which the library reads.

Only what both know and read alike, or what can be written so, passes; what the library knows and refuses is left to it.
"""

from __future__ import annotations

import re

from sgframe.errors import RequestError

_ATOM = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|\(\?(?:<(?![=!])[^>]*>|<?[=!]|[^)]?)|.", re.DOTALL)
_IN_CLASS = re.compile(r"\\.|.", re.DOTALL)
_GROUPS = ("(?:", "(?=", "(?!", "(?<")
_LETTERS = frozenset("dDwWsSbBnrtfvuxpPkc0123456789")
"""What a letter after a backslash may be. Others mean themselves in ECMA-262 and something else, or nothing, in Rust."""
_SPACE = r"\t\n\x0b\x0c\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
_SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": _SPACE}
_DOT = r"[^\n\r\x{2028}\x{2029}]"


def to_rust(pattern: str) -> str:
    """``pattern`` for the library, the same language. Raises RequestError for what the two dialects read differently."""
    return "".join(_atom(pattern, atom) for atom in _ATOM.findall(pattern))


def literal(text: str) -> str:
    """A regular expression, in the library's dialect, that matches ``text`` alone."""
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)


def _atom(pattern: str, atom: str) -> str:
    if atom == ".":
        return _DOT
    if atom.startswith("[") and len(atom) > 1:
        return _class(pattern, atom)
    if atom.startswith("(?") and not atom.startswith(_GROUPS):
        raise _refuse(pattern, f"the group {atom}")
    return _escape(pattern, atom, "[{}]") if atom.startswith("\\") else atom


def _class(pattern: str, atom: str) -> str:
    negated = atom.startswith("[^")
    members = _IN_CLASS.findall(atom[2 if negated else 1 : -1])
    if "--" in "".join(members):
        raise _refuse(pattern, f"-- in the class {atom}")
    inner = "".join(
        _escape(pattern, member, "{}") if len(member) > 1 else re.sub(r"[\[&~]", r"\\\g<0>", member)
        for member in members
    )
    return f"[{'^' if negated else ''}{inner}]"


def _escape(pattern: str, atom: str, form: str) -> str:
    """An escape; ``form`` is how a set of characters is written where it stands."""
    letter = atom[1:]
    if letter in _SETS:
        return form.format(_SETS[letter])
    if letter.lower() in _SETS:
        return f"[^{_SETS[letter.lower()]}]"
    if letter.isalnum() and letter not in _LETTERS:
        raise _refuse(pattern, atom)
    return atom


def _refuse(pattern: str, what: str) -> RequestError:
    return RequestError(
        f"the grammar 'llguidance' reads {what} in the regular expression {pattern!r} otherwise than ECMA-262: write it "
        "differently, or choose another grammar",
        code="invalid_regex",
    )
