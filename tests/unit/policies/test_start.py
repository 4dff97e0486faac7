"""The first offset of lanes."""

import pytest

from policies.start import (
    Duration,
    Earliest,
    Latest,
    Offsets,
    Start,
    StartRules,
    Timestamp,
    parse_reset,
    parse_rules,
    parse_start,
)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Earliest()),
        (" latest ", Latest()),
        ("2026-01-01T00:00:00Z", Timestamp(1_767_225_600_000)),
        ("2026-01-01T01:00:00.123+01:00", Timestamp(1_767_225_600_123)),
        ("2026-01-01", Timestamp(1_767_225_600_000)),
        ("-PT6H", Duration(21_600)),
        ("-P1DT1H1M1.5S", Duration(90_061.5)),
        ("-p2d", Duration(172_800)),
        ("0:100;1:200", Offsets({0: 100, 1: 200})),
        ("7:0", Offsets({7: 0})),
    ],
)
def test_starts(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "newest", "-P", "-PT", "-PT6X", "0:1;", "PT6H", "2026-13-01"])
def test_what_is_no_start_says_what_is(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_start(text)


@pytest.mark.parametrize(
    ("text", "start"),
    [("Earliest", Earliest()), ("latest", Latest()), ("by_duration:PT90S", Duration(90))],
)
def test_reset_policies(text: str, start: Start) -> None:
    assert parse_reset(text) == start


@pytest.mark.parametrize("text", ["none", "by_duration:soon"])
def test_other_reset_policies_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_reset(text)


def test_the_first_rule_that_matches_the_whole_name_holds() -> None:
    rules = parse_rules(["orders.*@latest", "exact@0:100", "orders-eu@-PT1H"], Earliest())
    assert rules.start_for("orders-eu") == Latest()
    assert rules.start_for("exact") == Offsets({0: 100})
    assert rules.start_for("my-orders") == Earliest()
    assert StartRules(otherwise=Latest()).start_for("x") == Latest()


def test_a_rule_without_a_place_or_with_a_bad_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="has no @"):
        parse_rules(["orders"], Earliest())
    with pytest.raises(ValueError, match="pattern '\\('"):
        parse_rules(["(@latest"], Earliest())
