"""The string formats of JSON Schema (draft 2020-12, validation, section 7.3) that are regular languages.

Owns their grammars, each as its RFC has it. Knows nothing of lengths and patterns beside them.
"""

from __future__ import annotations

from sgframe_fsm.expressions.memoising import per_process
from sgframe_fsm.expressions.store import EVERYTHING, Expr, Store
from sgframe_fsm.leaves.json_text import JsonCharacters
from sgframe_fsm.regex import compile_regex

INEXPRESSIBLE: dict[str, str] = {
    "idn-hostname": "which labels are valid (RFC 5892) is no regular language",
    "regex": "well-formed regular expressions are no regular language",
}
"""Formats that the specification defines and no expression can hold, and why."""

# RFC 3339; of leap seconds see _leap_seconds
_HOUR, _MINUTE, _FRACTION = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", r"(?:\.[0-9]+)?"
_DAYS = {
    "0[13578]|1[02]": "0[1-9]|[12][0-9]|3[01]",
    "0[469]|11": "0[1-9]|[12][0-9]|30",
    "02": "0[1-9]|1[0-9]|2[0-8]",
}
_MONTH_DAY = f"(?:{'|'.join(f'(?:{months})-(?:{days})' for months, days in _DAYS.items())})"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = f"(?:[0-9]{{4}}-{_MONTH_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = f"{_HOUR}:{_MINUTE}:{_MINUTE}{_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"
_CLOCK = "(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_CALENDAR = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_CALENDAR}(?:T{_CLOCK})?|T{_CLOCK}|[0-9]+W)"

# RFC 2673 and 4291
_OCTET, _GROUP = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])", "[0-9A-Fa-f]{1,4}"
_IPV4 = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_LAST = f"(?:{_GROUP}:{_GROUP}|{_IPV4})"
_IPV6 = "|".join(
    (
        f"(?:{_GROUP}:){{6}}{_LAST}",
        f"::(?:{_GROUP}:){{5}}{_LAST}",
        *(f"(?:(?:{_GROUP}:){{0,{before}}}{_GROUP})?::(?:{_GROUP}:){{{4 - before}}}{_LAST}" for before in range(5)),
        f"(?:(?:{_GROUP}:){{0,5}}{_GROUP})?::{_GROUP}",
        f"(?:(?:{_GROUP}:){{0,6}}{_GROUP})?::",
    )
)

# RFC 1123; RFC 5321 and, beyond ASCII, 6531
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LONGEST_HOSTNAME = 253
_BEYOND_ASCII = "\x80-\U0010ffff"
_SMTP_OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})"
_ADDRESS = rf"\[(?:{_SMTP_OCTET}(?:\.{_SMTP_OCTET}){{3}}|[Ii][Pp][Vv]6:(?:{_IPV6}))\]"


def _mailbox(beyond: str) -> str:
    atom = f"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{beyond}-]+"
    quoted = rf'"(?:[ !#-\[\]-~{beyond}]|\\[ -~])*"'
    letter = f"[A-Za-z0-9{beyond}]"
    label = f"{letter}(?:[A-Za-z0-9{beyond}-]*{letter})?"
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{label}(?:\.{label})*|{_ADDRESS})"


# RFC 3986 and, beyond ASCII, 3987
_UCS = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 | (0x1000 if plane == 14 else 0))}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_ENCODED = "%[0-9A-Fa-f]{2}"
_SUBDELIMITERS = "!$&'()*+,;="


def _resource(beyond: str, private: str, *, relative: bool) -> str:
    """A URI, or with ``relative`` a reference, of unreserved characters ``beyond`` ASCII, ``private`` ones in the query."""
    name = f"A-Za-z0-9._~{beyond}{_SUBDELIMITERS}"
    segment = f"(?:[{name}:@-]|{_ENCODED})"
    future = f"[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~{_SUBDELIMITERS}:-]+"
    host = rf"(?:\[(?:{_IPV6}|{future})\]|(?:[{name}-]|{_ENCODED})*)"
    authority = f"(?:(?:[{name}:-]|{_ENCODED})*@)?{host}(?::[0-9]*)?"
    segments = f"(?:/{segment}*)*"
    absolute = f"//{authority}{segments}|/(?:{segment}+{segments})?"
    ending = rf"(?:\?(?:[{name}:@/?{private}-]|{_ENCODED})*)?(?:#(?:[{name}:@/?-]|{_ENCODED})*)?"
    whole = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{absolute}|{segment}+{segments})?{ending}"
    if not relative:
        return whole
    without_colon = f"(?:[{name}@-]|{_ENCODED})+"
    return f"{whole}|(?:{absolute}|{without_colon}{segments})?{ending}"


# RFC 6570, 6901 and draft-bhutton-relative-json-pointer-00
_LITERAL = f"[!#$&-;=?-\\[\\]_a-z~{_UCS}{_PRIVATE}]|{_ENCODED}"
_VARIABLE = rf"(?:\w|{_ENCODED})(?:\.?(?:\w|{_ENCODED}))*(?::[1-9][0-9]{{0,3}}|\*)?"
_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"

_REGEXES: dict[str, str] = {
    "date": _DATE,
    "duration": _DURATION,
    "email": _mailbox(""),
    "idn-email": _mailbox(_BEYOND_ASCII),
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "iri": _resource(_UCS, _PRIVATE, relative=False),
    "iri-reference": _resource(_UCS, _PRIVATE, relative=True),
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
    "uri": _resource("", "", relative=False),
    "uri-reference": _resource("", "", relative=True),
    "uri-template": _TEMPLATE,
    "uuid": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
}

FORMATS: frozenset[str] = frozenset(_REGEXES) | {"date-time", "hostname", "time"}
"""Formats that ``format_expression`` knows. One in neither table is unknown to the specification: an annotation."""


@per_process
def format_expression(store: Store, name: str) -> Expr:
    """The content of a JSON string of format ``name``, one of FORMATS, in its plain spelling (see JsonCharacters).

    Two hold less than their RFC: no label of a hostname begins with ``xn--``, since which of these are valid is no regular
    language; and a leap second stands only with an offset in whole quarters of an hour.
    """
    match name:
        case "hostname":
            return _hostname(store)
        case "time":
            return store.union((_compiled(store, _TIME), _leap_seconds(store)))
        case "date-time":
            return store.sequence(
                (format_expression(store, "date"), _compiled(store, "[Tt]"), format_expression(store, "time"))
            )
    return _compiled(store, _REGEXES[name])


def _compiled(store: Store, regex: str) -> Expr:
    return compile_regex(store, regex, JsonCharacters(store, plain=True), search=False)


def _hostname(store: Store) -> Expr:
    encoded = store.sequence((_compiled(store, "[Xx][Nn]--"), EVERYTHING))
    label = store.intersection((_compiled(store, _LABEL), store.complement(encoded)))
    name = store.sequence((label, store.repeat(store.sequence((store.literal(b"."), label)), 0, None)))
    return store.intersection((name, _compiled(store, f"[A-Za-z0-9.-]{{1,{_LONGEST_HOSTNAME}}}")))


def _leap_seconds(store: Store) -> Expr:
    """23:59:60 UTC, by any clock that is a number of quarters of an hour ahead of it or behind."""
    fraction = _compiled(store, _FRACTION)
    times = []
    for quarter in range(96):
        minutes = quarter * 15 + 14
        ahead, behind = (minutes + 1) % 1440, 1439 - minutes
        offsets = [store.literal(f"{sign}{_clock(offset)}".encode()) for sign, offset in (("+", ahead), ("-", behind))]
        if minutes == 1439:
            offsets.append(_compiled(store, "[Zz]"))
        times.append(store.sequence((store.literal(f"{_clock(minutes)}:60".encode()), fraction, store.union(offsets))))
    return store.union(times)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
