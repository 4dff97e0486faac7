"""Patterns that match nothing, and the likely intended ones."""

import pytest

from policies.files.meant import Idle, has_quotes, idle_patterns, is_quoted, unquoted, without_stars

NAMES = ("orders-1", "orders-2", "eu.clicks", "Payments", "billing", "_hidden")


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("orders-*", "orders-.*"),
        ("*clicks", ".*clicks"),
        ("*", ".*"),
        ("/orders-.*/", "orders-.*"),
        ("billing;orders-1", "billing,orders-1"),
        ("absent billing", "absent,billing"),
        (r"eu\\.clicks", r"eu\.clicks"),
        ("payments", "Payments"),
        ("PAY.*", "(?i:PAY.*)"),
        ("biling", "billing"),
        ("orders", "orders.*"),
        ("orders|x", "(orders|x).*"),
        ("clicks", ".*clicks"),
        ("order", "order.*"),
        ("ders", ".*ders.*"),
        ("absent", None),
        ("absent.*", None),
        ("x", None),
        ("(", None),
    ],
)
def test_what_was_likely_meant(pattern: str, meant: str | None) -> None:
    assert idle_patterns([pattern], NAMES) == [Idle(pattern, meant)]


def test_only_those_of_a_list_that_match_nothing() -> None:
    assert idle_patterns(["billing", "order", ".*clicks"], NAMES) == [Idle("order", "order.*")]
    assert idle_patterns([".*"], NAMES) == []
    assert idle_patterns([], NAMES) == []


def test_flags_hold_for_those_that_follow_and_a_pattern_that_was_cut_is_whole() -> None:
    assert idle_patterns(["(?i)ORDERS-1", "payments"], NAMES) == []
    assert idle_patterns(["payments", "(?i)ORDERS-1"], NAMES) == [Idle("payments", "Payments")]
    assert idle_patterns(["(billing", "x)"], NAMES) == []


@pytest.mark.parametrize(
    ("items", "quoted", "right"),
    [
        (['".*"'], True, ".*"),
        (['"a', 'b"'], True, "a,b"),
        (["'a'", "b"], True, "a,b"),
        (['[^"]*'], False, '[^"]*'),
        (["a", ""], False, "a,"),
        ([], False, ""),
    ],
)
def test_quotes_of_a_list(items: list[str], quoted: bool, right: str) -> None:
    assert has_quotes(items) is quoted
    assert unquoted(items) == right


@pytest.mark.parametrize(("text", "quoted"), [('"3"', True), ("'3'", True), ("\"3'", False), ('"', False), ("", False)])
def test_quotes_around_a_value(text: str, quoted: bool) -> None:
    assert is_quoted(text) is quoted


@pytest.mark.parametrize(
    ("pattern", "right"), [("a*", "a.*"), ("*a*", ".*a.*"), (".*", ".*"), (r"\*", r"\*"), ("[ab]*(c)*", "[ab]*(c)*")]
)
def test_patterns_of_file_names(pattern: str, right: str) -> None:
    assert without_stars(pattern) == right
