"""A format allows what its RFC allows."""

from __future__ import annotations

import calendar
import datetime
import ipaddress
import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from schema_data import schema_test_suite

from sgframe_fsm.expressions.store import NOTHING, Store
from sgframe_fsm.leaves.formats import FORMATS, INEXPRESSIBLE
from sgframe_fsm.leaves.strings import StringSpec, admits, string_expression

STORE = Store(budget=10**9)


def allows(name: str, *texts: str) -> bool:
    """Whether all of ``texts`` are of format ``name``; where some but not all are, that is a failure."""
    verdicts = {text: admits(STORE, StringSpec(formats=(name,)), text) for text in texts}
    assert len(set(verdicts.values())) == 1, verdicts
    return verdicts[texts[0]]


def suite_cases() -> list[dict[str, Any]]:
    files = [case for case in schema_test_suite() if case["file"].startswith("optional/format/")]
    return [case for case in files if case["schema"]["format"] in FORMATS]


def test_the_test_suite_agrees() -> None:
    expressions = {name: string_expression(STORE, StringSpec(formats=(name,))) for name in FORMATS}
    verdicts: Counter[tuple[str, bool, bool]] = Counter()
    for case in suite_cases():
        name = case["schema"]["format"]
        for _, instance, valid in case["tests"]:
            written = json.dumps(instance, ensure_ascii=False).encode()
            if isinstance(instance, str):
                verdicts[name, valid, STORE.accepts(expressions[name], written)] += 1
    right = sum(count for (_, valid, found), count in verdicts.items() if valid == found)
    print(f"{right} of {sum(verdicts.values())} strings judged right; wrong: valid hostnames with an xn-- label")
    assert {key: count for key, count in verdicts.items() if key[1] != key[2]} == {("hostname", True, False): 15}
    assert right > 400


def test_a_format_of_the_specification_is_known_or_said_to_be_inexpressible() -> None:
    specified = set(
        """date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri
    iri-reference uuid uri-template json-pointer relative-json-pointer regex""".split()  # noqa: SIM905
    )
    assert FORMATS | set(INEXPRESSIBLE) == specified


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
@settings(max_examples=150, deadline=None)
def test_a_date_is_one_of_the_calendar(year: int, month: int, day: int) -> None:
    exists = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 400, month)[1]
    assert allows("date", f"{year:04}-{month:02}-{day:02}") == exists


def test_a_time_needs_an_offset() -> None:
    assert allows("time", "23:59:59Z", "00:00:00.123z", "12:30:00+05:45", "12:30:00-23:59")
    assert not allows("time", "12:30:00", "24:00:00Z", "12:60:00Z", "12:30Z", "12:30:00+5:45", "12:30:00.Z")


@given(st.integers(-95, 95))
@settings(deadline=None)
def test_a_leap_second_is_2359_utc(quarters: int) -> None:
    offset = datetime.timedelta(minutes=15 * quarters)
    clock = (datetime.datetime(2016, 12, 31, 23, 59) + offset).strftime("%H:%M")
    hours, minutes = divmod(abs(15 * quarters), 60)
    zone = f"{'-' if quarters < 0 else '+'}{hours:02}:{minutes:02}"
    assert allows("date-time", f"2016-12-31T{clock}:60{zone}", f"2016-12-31t{clock}:60.5{zone}")
    assert not allows("time", f"{clock}:61{zone}", f"{clock}:60{'Z' if quarters else '+00:15'}")


def test_a_duration_leaves_out_no_unit_in_the_middle() -> None:
    assert allows("duration", "P1Y2M3DT4H5M6S", "P2W", "PT36H", "P1M", "PT1M")
    assert not allows("duration", "P", "PT", "P1YT", "P1Y3D", "PT1H6S", "P1Y2W", "P-1D", "PT0.5S", "1D")


@given(st.ip_addresses(v=4).map(str) | st.from_regex(r"(25[4-7]|0?[0-9]|1\.){1,4}(\.[0-9]{1,3}){2,3}", fullmatch=True))
@settings(deadline=None)
def test_ipv4_agrees_with_python(address: str) -> None:
    assert allows("ipv4", address) == is_address(ipaddress.IPv4Address, address)


@given(
    st.ip_addresses(v=6).map(str)
    | st.lists(st.sampled_from(["", "0", "ff", "1.2.3.4"]), min_size=2, max_size=9).map(":".join)
)
@settings(max_examples=300, deadline=None)
def test_ipv6_agrees_with_python(address: str) -> None:
    assert allows("ipv6", address) == is_address(ipaddress.IPv6Address, address)


def is_address(kind: Any, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def test_a_hostname_is_bounded_in_its_labels_and_as_a_whole() -> None:
    label = "a" * 63
    assert allows("hostname", "a", "example.com", "1-2.x", label, ".".join([label] * 3 + ["a" * 61]))
    assert not allows("hostname", "", ".", "a.", "-a", "a-", "a_b", "a" * 64, ".".join([label] * 3 + ["a" * 62]))


def test_a_punycode_label_is_not_offered() -> None:
    assert not allows("hostname", "xn--9n2bp8q", "a.XN--x")
    assert allows("hostname", "xn-a", "axn--b")


def test_an_email_address() -> None:
    assert allows("email", "a.b+c@example.com", '"a b"@x', r'"\""@x', "a@[127.0.0.1]", "a@[IPv6:::1]", "a@b-c.d")
    assert not allows("email", "a", "@b", "a@", "a..b@c", ".a@b", "a b@c", "a@-b", "a@[127.0.0.300]", "é@x", "a@é")
    assert allows("idn-email", "é@例え.jp", "a@b")


def test_a_uri_has_a_scheme_and_a_reference_need_not() -> None:
    absolute = ("http://a", "urn:a:b", "mailto:a@b", "http://u:p@h:80/p/q?r=s#t", "http://[::1]:8080/", "a:", "x:/y")
    relative = ("", "/a", "a/b?c", "//h/p", "#f", "./a:b")
    neither = ("a b", "http://a b", "http://h/%zz", "http://h:x/", 'http://"', "\\", "1:b", "//a@b@c", "http://é")
    assert allows("uri", *absolute)
    assert not allows("uri", *relative, *neither)
    assert allows("uri-reference", *absolute, *relative)
    assert not allows("uri-reference", *neither)
    assert allows("iri", "http://é/日?\ue000#😀")
    assert not allows("iri", "http://h/\ue000")


def test_pointers_and_templates() -> None:
    assert allows("json-pointer", "", "/", "/a/~0~1", "/é\n")
    assert not allows("json-pointer", "a", "/~", "/~2", "#/a")
    assert allows("relative-json-pointer", "0", "10#", "1/a")
    assert not allows("relative-json-pointer", "01", "-1", "1#/a", "/a")
    assert allows("uri-template", "", "a{b}", "{+x,y*}/{z:3}", "é%41")
    assert not allows("uri-template", "{", "{}", "a}", "{x:0}", "{a,}", "a b")


def test_a_uuid_has_its_dashes_in_place() -> None:
    assert allows("uuid", "2eb8aa08-AA98-11ea-b4aa-73b441d16380")
    assert not allows("uuid", "2eb8aa08aa98-11ea-b4aa-73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g")


def test_a_format_goes_with_patterns_and_lengths() -> None:
    store = Store()
    assert admits(store, StringSpec(0, 10, ("^http:",), formats=("uri",)), "http://a")
    assert not admits(store, StringSpec(0, 10, ("^http:",), formats=("uri",)), "http://abcd")
    expression = string_expression(store, StringSpec(0, 10, ("^http:",), formats=("uri",)))
    assert store.accepts(expression, b'"http:\\/\\/a"')
    assert not store.accepts(expression, b'"http://abcd"')
    assert not store.accepts(expression, b'"ftp://a"')
    assert string_expression(store, StringSpec(formats=("uuid", "date"))) == NOTHING
