"""The keyword ``pattern``: a regular expression on the content of a JSON string, as one that keeps to it.

The library keeps a small pattern to characters that may stand in a JSON string, and pastes a large one as it is. Here every
pattern keeps to them by itself; what would be written with an escape is left out.
"""

from __future__ import annotations

import re

from sgframe_xgrammar.dialect import inner_atoms, split

_MEMBER = re.compile(r"\\u\{[^}]*\}|\\u....|\\c.|\\.|.", re.DOTALL)
_OUTSIDE = r'"\\\u0000-\u001f'
"""What stands in no JSON string unescaped (RFC 8259), as members of a class."""
_SPACES = r" \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_UNSAFE = re.compile(r'"|\\(?:[\\bfnrtv0]|c.|u00(?:[01].|22|5[cC]))', re.DOTALL)
_ANY = f"[^{_OUTSIDE}]"
_SETS = {
    ".": rf"[^{_OUTSIDE}\u2028\u2029]",
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}{_OUTSIDE}]",
    r"\W": rf"[^\w{_OUTSIDE}]",
    r"\D": rf"[^\d{_OUTSIDE}]",
}


def in_string(pattern: str) -> str:
    """``pattern``, found anywhere, as one for the whole string. Raises ValueError with what is in the way."""
    atoms = split(pattern)
    inner = inner_atoms(atoms)
    if "|" in inner and len(inner) < len(atoms):
        raise ValueError("there is an anchor beside an alternative")
    before = "" if atoms[:1] == ["^"] else f"{_ANY}*"
    after = "" if atoms[-1:] == ["$"] else f"{_ANY}*"
    return f"^{before}(?:{''.join(map(_atom, inner))}){after}$"


def _atom(atom: str) -> str:
    if atom.startswith("[^"):
        return f"[^{atom[2:-1]}{_OUTSIDE}]"
    if atom.startswith("[") and len(atom) > 1:
        return _class(atom)
    if _UNSAFE.fullmatch(atom):
        raise ValueError(f"{atom} would stand in the string unescaped")
    return _SETS.get(atom, atom)


def _class(atom: str) -> str:
    members = [member for member in _MEMBER.findall(atom[1:-1]) if not _UNSAFE.fullmatch(member)]
    if any({f"\\{letter}", f"\\{letter.upper()}"} <= {*members} for letter in "dsw"):
        return _ANY
    kept = "[" + "".join(_SPACES if member == r"\s" else member for member in members) + "]"
    try:
        unsafe = [code for code in (*range(0x20), 0x22, 0x5C) if re.fullmatch(kept, chr(code), re.ASCII)]
    except re.error as error:
        raise ValueError(f"the class {atom} is not understood ({error})") from None
    if unsafe:
        raise ValueError(f"the class {atom} holds U+{unsafe[0]:04X}, which would stand in the string unescaped")
    return kept
