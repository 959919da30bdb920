"""What each construct of a regex matches. ``full`` texts match as a whole, a ``search`` finds a match anywhere."""

from __future__ import annotations

import pytest

from sgframe.errors import RequestError
from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.store import NOTHING, Store
from sgframe_fsm.regex import compile_regex
from sgframe_fsm.regex.alphabet import Utf8


def matches(pattern: str, text: str, *, search: bool = False) -> bool:
    store = Store()
    return store.accepts(compile_regex(store, pattern, Utf8(store), search=search), text.encode())


def refusal(pattern: str) -> RequestError:
    store = Store()
    with pytest.raises(RequestError) as caught:
        compile_regex(store, pattern, Utf8(store), search=True)
    return caught.value


FULL = [
    # pattern, texts that match, texts that do not
    ("abc", ["abc"], ["", "ab", "abcd"]),
    ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
    ("(a)(?:b)(?<name>c)(?P<other>d)", ["abcd"], ["abc"]),
    ("(?<n>a)|(?<n>b)|((?<n>c)|(?<n>d))", ["a", "b", "c", "d"], ["ab"]),
    ("a*b+c?", ["b", "aabbc"], ["a", "bcc"]),
    ("a*?b+?c??", ["b", "aabbc"], ["a", "bcc"]),
    ("a{2}b{1,}c{1,2}", ["aabc", "aabbcc"], ["abc", "aabccc"]),
    ("a{0}b", ["b"], ["ab"]),
    ("{a}]x{b", ["{a}]x{b"], ["a"]),
    (r"\.\-\/\_\@\"\{\é", ['.-/_@"{é'], ["........"]),
    (".", ["a", "é", "日", "😀", "\0"], ["", "ab", "\n", "\r", "\u2028", "\u2029"]),
    ("[^]", ["a", "\n", "😀"], [""]),
    ("[^a]", ["b", "é", "😀", "\n"], ["a", ""]),
    ("[a-cx]", ["b", "x"], ["d", "-"]),
    ("[a-]", ["a", "-"], ["b"]),
    (r"[\w-.]", ["a", "-", "."], [","]),
    (r"[\]\\\-^]", ["]", "\\", "-", "^"], ["a"]),
    (r"[\b]", ["\x08"], ["b"]),
    ("[а-я]", ["а", "я"], ["Я", "a"]),
    ("[日-😀]", ["日", "月", "😀"], ["あ", "😁"]),
    (r"\d", ["0", "9"], ["a", "٣"]),
    (r"\w", ["a", "Z", "_", "5"], ["é", "-"]),
    (r"\s", [" ", "\t", "\n", "\xa0", "\u3000", "\ufeff"], ["a", "\u200b"]),
    (r"\D", ["a", "٣"], ["0"]),
    (r"\W", ["é", "-"], ["a"]),
    (r"\S", ["a", "\u200b"], ["\u2003"]),
    (r"[^\d\s]", ["a"], ["1", " "]),
    (r"\t\n\v\f\r\0", ["\t\n\v\f\r\0"], []),
    (r"\cA\cz", ["\x01\x1a"], []),
    (r"\x41\u00e9\u{1F600}\uD83D\uDE00", ["Aé😀😀"], []),
    (r"[\uD83D\uDE00-\uD83D\uDE02]", ["😀", "😁", "😂"], ["😃"]),
    (r"\p{L}\p{Lu}\P{L}", ["éÉ1", "日A😀"], ["ée1", "1É1"]),
    (r"\p{Script=Greek}\p{sc=Cyrl}", ["αж"], ["жα"]),
    (r"\p{Alphabetic}[\p{Nd}\p{Zs}]", ["a٣", "é "], ["aa"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), FULL, ids=[case[0] for case in FULL])
def test_full_matches(pattern: str, good: list[str], bad: list[str]) -> None:
    assert [matches(pattern, text) for text in good + bad] == [True] * len(good) + [False] * len(bad)


SEARCHED = [
    ("b", ["b", "abc"], ["", "ac"]),
    ("^b", ["b", "bc"], ["ab"]),
    ("b$", ["b", "ab"], ["bc", "b\n"]),
    ("^b$", ["b"], ["ab", "bc"]),
    ("^a|b$", ["a", "ac", "cb"], ["ca", "bc"]),
    ("(^a)(b$)", ["ab"], ["abb", "cab"]),
    ("x^a", [], ["a", "xa"]),
    ("a$x", [], ["a", "ax"]),
    ("x*^a$y*", ["a"], ["xa", "ay"]),
    ("(^|,)a(,|$)", ["a", "b,a", "a,b"], ["ba", "ab"]),
    ("([^,]+(,|$)){3,}", ["a,b,c", "a,b,c,"], ["a,b", ",,,"]),
    ("^(/?(a|b)($|/))*$", ["", "a/b/", "/a/b"], ["ab", "a///b"]),
    ("^(?:^a|b)*$", ["", "abb", "b"], ["ba", "aa"]),
    (r"\bab\b", ["ab", "x ab.", "é ab"], ["xab", "ab_"]),
    (r"\Bb\B", ["abc"], ["b", "ab", "bc"]),
    (r"^\w+\b-\b\w+$", ["a-b"], ["a--b", "-b"]),
    (r"^a?\b\W", ["a-"], ["-", "b"]),
    ("^(?!foo).*$", ["", "fo", "bar", "a foo"], ["foo", "foobar"]),
    ("^(?!foo$)[a-z]+$", ["fo", "foobar"], ["foo"]),
    ("^(?!.*foo)", ["", "fo", "a\nfoo"], ["foo", "a foo"]),
    (r"^(?=.*\d)(?=.*[a-z]).{3}$", ["a1_", "_1a"], ["aaa", "111", "a1"]),
    ("^(?=[^=]+$)(?!a+$)(.|\n)+$", ["b", "aab\n"], ["aa", "a=b", ""]),
    ("a(?!b)", ["a", "ac", "aba"], ["ab", "b"]),
    ("^((?!foo|bar).)*$", ["", "fo", "f oo"], ["foo", "xbar"]),
    ("^(?:(?=[ab])(?!bb)[a-z])*$", ["abab", "b"], ["abba", "abc"]),
    ("^(?:(?!-)[a-z-])*$", ["ab", ""], ["a-b"]),
    (r"(?<=\$)5", ["$5", "1$5"], ["5", "$15"]),
    (r"(?<!\d)5", ["5", "a5"], ["15"]),
    ("(?<=^|,)b", ["b", "a,b"], ["ab"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), SEARCHED, ids=[case[0] for case in SEARCHED])
def test_searches(pattern: str, good: list[str], bad: list[str]) -> None:
    assert [matches(pattern, text, search=True) for text in good + bad] == [True] * len(good) + [False] * len(bad)


FLAGGED = [
    ("(?i)aé", ["aé", "AÉ"], ["ae"]),
    ("(?i)[^a]", ["b"], ["a", "A"]),
    ("(?i)[a-c]Σ", ["Bσ", "bς"], ["d"]),
    ("(?i)straße", ["STRAẞE"], ["STRASSE"]),
    ("(?i:a)b", ["Ab"], ["AB"]),
    ("(?i)a(?-i:b)", ["Ab"], ["aB"]),
    ("(?s).", ["\n"], [""]),
    ("(?sm).^b$.", ["\nb\n"], ["ab\n"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), FLAGGED, ids=[case[0] for case in FLAGGED])
def test_flags(pattern: str, good: list[str], bad: list[str]) -> None:
    assert [matches(pattern, text) for text in good + bad] == [True] * len(good) + [False] * len(bad)


INVALID = [
    "(",
    "(a",
    "a)",
    "[",
    "[a",
    "*a",
    "a**",
    "a++",
    "{2}",
    "a{3,2}",
    "a{,2}",
    "[b-a]",
    "\\",
    r"\u12",
    r"\x1",
    r"\u{110000}",
]
INVALID += [r"\u{110000}", r"\c1", r"\A", r"\Z", r"\e", r"\01", "^*", r"\b+", "(?=a)*", "(?<1a>x)", "(?y", r"\pL"]
INVALID += ["(?<n>a)(?<n>b)", "(?<n>(?<n>a))", "(?:(?<n>a)|b)(?<n>c)", "(?:(?<n>a)|(?<n>b))(?<n>c)"]


@pytest.mark.parametrize("pattern", INVALID)
def test_invalid_regexes_are_refused(pattern: str) -> None:
    assert refusal(pattern).code == "invalid_regex"


UNSUPPORTED = [
    (r"(a)\1", "a back-reference at position 3"),
    (r"(?<n>a)\k<n>", "a back-reference at position 7"),
    ("x(?<=ab)", "a look-behind over more than one character at position 1"),
    ("x(?:(?!ab)[a-z])*c", "an assertion in an endless repetition at position 1"),
    (r"(\ba){1,5000}", "an assertion repeated up to 5000 times at position 0"),
    ("(?>a)", "an atomic, conditional or recursive group at position 0"),
    ("a(?i)b", "flags in mid-pattern at position 1"),
    ("(?x)a b", "the flag 'x' at position 2"),
    (r"\p{Klingon}", "the unknown property 'Klingon' at position 0"),
    (r"\uD83D", "half of a surrogate pair at position 0"),
    (r"[\uD800-\uDBFF]a", "half of a surrogate pair at position 0"),
    ("(" * 51 + "a" + ")" * 51, "more than 50 groups inside one another at position 50"),
    ("(" * 10_000 + "a" + ")" * 10_000, "more than 50 groups inside one another at position 50"),
]


@pytest.mark.parametrize(("pattern", "said"), UNSUPPORTED, ids=[said for _, said in UNSUPPORTED])
def test_what_no_automaton_can_honour_is_refused_by_name(pattern: str, said: str) -> None:
    error = refusal(pattern)
    assert error.code == "unsupported_regex"
    assert said in str(error)


def test_a_refusal_quotes_the_pattern_and_says_what_to_do() -> None:
    assert str(refusal("a{3,2}")) == (
        "a quantifier whose bounds are out of order at position 1 (in characters, from 0) of the regex 'a{3,2}': "
        "put the smaller one first"
    )


@pytest.mark.parametrize("pattern", ["[]", "a$b", "b^a", r"a\Bb\bc", "a(?!b)b", "^(?=a)b"])
def test_a_regex_without_a_match_is_nothing(pattern: str) -> None:
    store = Store()
    assert compile_regex(store, pattern, Utf8(store), search=True) == NOTHING


SAME = [
    ("^(?:ab+|c)$", "ab+|c"),
    ("(^a[0-9]{2,5}$)", "a[0-9]{2,5}"),
    ("^a$|^b$", "a|b"),
    ("^a*", r"[^]*"),
    ("", "[^]*"),
]


@pytest.mark.parametrize(("searched", "full"), SAME, ids=[case[0] for case in SAME])
def test_a_search_is_no_larger_than_the_full_match_it_amounts_to(searched: str, full: str) -> None:
    store = Store()
    alphabet = Utf8(store)
    assert compile_regex(store, searched, alphabet, search=True) == compile_regex(store, full, alphabet, search=False)


BOMBS = [
    "(a|aa)+b{1,5000}",
    ".{0,100000}",
    r"((.{1,63}\.){1,127})",
    "([abc]*)*",
    "x{1000000000}",
    "(((x{1,1000}){1,1000}){1,1000}){1,1000}",
    "(" * 50 + "a|b" + ")*" * 50,
    "(?:(?:a?){50}){50}",
    "[" + "a-z" * 1000 + "]",
    "a" * 5000,
    r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$",
    "|".join(f"{number}{number * 7919 % 1000} a word" for number in range(500)),
]


@pytest.mark.parametrize("pattern", BOMBS, ids=[pattern[:20] for pattern in BOMBS])
def test_a_bomb_compiles_to_a_small_expression(pattern: str) -> None:
    store = Store()
    for search in (False, True):
        compile_regex(store, pattern, Utf8(store), search=search)
    assert len(store) < 5_000


@pytest.mark.parametrize(
    "pattern", ["(" * 30 + "^" + "){1,64}" * 30, "(?:^|$|a" * 49 + ")*" * 49, "((a$|b){1,64}){1,64}"]
)
def test_a_bomb_of_assertions_is_refused(pattern: str) -> None:
    store = Store()
    with pytest.raises(GrammarTooLarge):
        compile_regex(store, pattern, Utf8(store), search=False)
