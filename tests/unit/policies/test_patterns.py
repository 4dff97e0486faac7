"""Java patterns translated to Python."""

import pytest

from policies.patterns import BadPattern, PatternList, literal, translate


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders.*", "orders-eu", "xorders"),
        (r"\Qa.b\E.*", "a.bc", "axb"),
        (r"(?<one>a|b)-\k<one>", "a-a", "a-b"),
        (r"[\w-.]+", "a-b.c", "a b"),
        (r"[\d-]+", "1-2", "a"),
        (r"[^\s-x]+", "a", "-"),
        (r"(?<!a)b|(?=c)c|(?i-s:D)", "d", "e"),
        (r"[\p{Alpha}_]+", "a_B", "a1"),
        (r"\p{Alnum}x", "1x", "-x"),
        (r"\P{Digit}+", "ab", "a1"),
        (r"\pLx", "ax", "1x"),
        (r"[\Qa-c\E]+", "a-c", "b"),
        ("(?i)foo", "FOO", "bar"),
        ("(?idu)foo", "Foo", "bar"),
        ("(?i:f)oo", "Foo", "FOO"),
        (r"(?<name>a)\w\z", "ab", "a"),
        ("[]a]", "]", "b"),
        ("[^]a]", "b", "]"),
        ("[a|b~&]+", "a|&~", "c"),
        ("[a--b]", "a", "c"),
        ("a++b", "aab", "b"),
        ("x{2}y{1,3}z{1,}", "xxyyz", "xyz"),
        (r".*[\-\.]internal", "a-internal", "internal"),
        (r"[\w.]+", "a.b", "a-b"),
    ],
)
def test_java_constructs(pattern: str, matching: str, other: str) -> None:
    patterns = PatternList([pattern])
    assert patterns.matches(matching)
    assert not patterns.matches(other)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing \\)"),
        ("\\", "bad escape"),
        ("[a", "unterminated character set"),
        ("[a&&[b]]", "intersection"),
        ("[a[b]]", "union"),
        (r"\p{Greek}", "not known"),
        (r"[\P{Alpha}]", "no counterpart"),
        (r"\h+", "no counterpart"),
        ("(?x)a b", "flag x"),
        ("(?P<n>a)", "no group that starts like this"),
        ("(?#why)a", "no group that starts like this"),
        (r"\Qa", "close it"),
        (r"\0141", "no counterpart"),
        ("a(?i)b", "put it first"),
        ("x{1", "split at every comma"),
        ("a{1,99999999999999999999}", "too large"),
    ],
)
def test_what_cannot_be_used_is_named(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern, match=why) as caught:
        translate(pattern)
    assert caught.value.pattern == pattern
    assert repr(pattern) in str(caught.value)


def test_a_group_name_in_two_patterns_is_refused() -> None:
    with pytest.raises(BadPattern, match="redefinition of group name"):
        PatternList(["(?<n>a)", "(?<n>b)"])


def test_a_pattern_that_was_cut_at_its_commas_is_whole_again() -> None:
    patterns = PatternList(["(orders", "bills)-.*", "x"])
    assert [name for name in ("orders-1", "bills-1", "x", "orders") if patterns.matches(name)] == [
        "orders-1",
        "bills-1",
        "x",
    ]


def test_a_bad_pattern_of_a_list_is_named_alone() -> None:
    with pytest.raises(BadPattern) as caught:
        PatternList(["orders", "(bills", "x"])
    assert caught.value.pattern == "(bills"


def test_an_empty_list_matches_nothing() -> None:
    assert not PatternList([]).matches("")
    assert not PatternList([]).matches("a")


def test_a_flag_holds_for_the_patterns_behind_it() -> None:
    patterns = PatternList(["a", "(?i)b", "(?i)c", "d"])
    assert [name for name in "aAbBcCdD" if patterns.matches(name)] == ["a", "b", "B", "c", "C", "d", "D"]


def test_alternatives_stay_inside_their_pattern() -> None:
    patterns = PatternList(["a|b", "c"])
    assert [name for name in ("a", "b", "c", "ac") if patterns.matches(name)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("orders", "orders"), ("a.b", "a.b"), (r"a\.b\-c", "a.b-c"), ("a.*", None), (r"a\d", None), ("", None)],
)
def test_patterns_of_one_name(pattern: str, name: str | None) -> None:
    assert literal(pattern) == name
