"""What happens to a lane whose topic was replaced or lost records."""

import pytest

from policies.patterns import BadPattern
from policies.sync.topic_faults import FaultRules, GoOn, OnGap, OnRefused, OnRenewal, Renewed, go_on, parse_choices


@pytest.mark.parametrize(
    ("choice", "source", "target", "both"),
    [
        (OnRenewal.FAIL, GoOn.NOWHERE, GoOn.NOWHERE, GoOn.NOWHERE),
        (OnRenewal.APPEND, GoOn.FIRST, GoOn.POSITION, GoOn.FIRST),
        (OnRenewal.RECREATE, GoOn.BEHIND_TARGET, GoOn.FIRST, GoOn.FIRST),
    ],
)
def test_where_a_lane_goes_on(choice: OnRenewal, source: GoOn, target: GoOn, both: GoOn) -> None:
    assert [go_on(choice, one) for one in (Renewed.SOURCE, Renewed.TARGET, Renewed.BOTH)] == [source, target, both]


def test_the_first_rule_that_matches_a_whole_name_wins() -> None:
    rules = FaultRules(
        gaps=parse_choices(["logs.*@continue", "logs-audit@fail"], OnGap),
        renewals=parse_choices([" a@b @ append", "tmp.*@re-create", "fail", "x@append"], OnRenewal),
    )
    assert [rules.on_gap(topic) for topic in ("logs-audit", "my-logs")] == [OnGap.CONTINUE, OnGap.FAIL]
    names = ("a@b", "tmp-1", "x", "other")
    assert [rules.on_renewal(topic) for topic in names] == [
        OnRenewal.APPEND,
        OnRenewal.RECREATE,
        OnRenewal.FAIL,
        OnRenewal.FAIL,
    ]


def test_refused_records_stop_their_lane_unless_a_rule_says_otherwise() -> None:
    assert (FaultRules().on_refused("t"), FaultRules().leaves_out) == (OnRefused.STOP, False)
    rules = FaultRules(refusals=parse_choices(["a.*@quarantine", "b@skip", "stop"], OnRefused))
    assert [rules.on_refused(topic) for topic in ("a1", "b", "b1")] == [
        OnRefused.QUARANTINE,
        OnRefused.SKIP,
        OnRefused.STOP,
    ]
    assert rules.leaves_out
    assert not FaultRules(refusals=parse_choices(["stop"], OnRefused)).leaves_out


def test_without_a_rule_everything_fails() -> None:
    assert FaultRules().on_gap("t") is OnGap.FAIL
    assert FaultRules().on_renewal("t") is OnRenewal.FAIL


def test_entries_that_say_nothing() -> None:
    with pytest.raises(ValueError, match="'orders@append' does not end in one of fail, continue"):
        parse_choices(["orders@append"], OnGap)
    with pytest.raises(ValueError, match="'orders' does not end in one of fail, append, re-create"):
        parse_choices(["orders"], OnRenewal)
    with pytest.raises(BadPattern):
        parse_choices(["(@append"], OnRenewal)
