"""Regular expressions of ECMA-262 as the library reads them: it knows most, and takes some for something else."""

from __future__ import annotations

import re

_ATOM = re.compile(r"\\u\{[^}]*\}|\\u[0-9a-fA-F]{4}|\\c[a-zA-Z]|\\.|\[\^?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(d[89ab]..)\\u(d[c-f]..)|(u)d[89a-f]|x([0-9a-f]{2})|(.))", re.DOTALL | re.IGNORECASE)
_KNOWN = frozenset("dDwWsSbBnrtfvuxpPkc0123456789")
"""What a letter after a backslash may be; any other means itself."""
_DOT = r"[^\n\r\u2028\u2029]"


def whole(pattern: str) -> str:
    """``pattern`` so that the library's whole match is that of ECMA-262. Raises ValueError with what is in the way."""
    return "".join(_DOT if atom == "." else atom for atom in inner_atoms(split(pattern)))


def literal(text: str) -> str:
    """A regular expression that matches ``text`` alone."""
    return "".join(c if c.isalnum() or ord(c) > 0x7F else f"\\u{ord(c):04x}" for c in text)


def split(pattern: str) -> list[str]:
    """The characters, escapes and classes of ``pattern``, spelled as the library reads them right."""
    return _ATOM.findall(_ESCAPE.sub(_spell, pattern))


def inner_atoms(atoms: list[str]) -> list[str]:
    """Without the anchors at both ends, which are the only ones that the library heeds. Raises ValueError for others."""
    inner = atoms[atoms[:1] == ["^"] :]
    inner = inner[: len(inner) - (inner[-1:] == ["$"])]
    if "^" in inner or "$" in inner:
        raise ValueError("there is an anchor inside")
    return inner


def _spell(escape: re.Match[str]) -> str:
    """An escape for the library, which takes more than two digits after ``\\x`` and surrogates for characters."""
    high, low, lone, code, character = escape.groups()
    if high:
        return f"\\u{{{0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF):x}}}"
    if lone:
        raise ValueError("there is half a surrogate pair")
    if code:
        return f"\\u00{code}"
    means_itself = character.isascii() and character.isalnum() and character not in _KNOWN
    return str(character) if means_itself else escape[0]
