"""Conditions of `--fail-if`."""

import pytest

from actors.model.states import Desired
from actors.model.status import MirrorStatus
from actors.observability.conditions import FIGURES, BadCondition, parse_condition
from tests.unit.actors.telemetry.statuses import NOW_MS, flow_status, mirror_status


def behind(lag_s: float | None = 90.0, unknown: int = 0) -> MirrorStatus:
    since = -1 if lag_s is None else NOW_MS - int(lag_s * 1000)
    return mirror_status(
        flows=[flow_status(unknown_lanes=unknown, lag_records=None if unknown else 10, behind_since_ms=since)]
    )


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("lag_seconds>60", True),
        (" lag_seconds >= 90 ", True),
        ("lag_seconds>90", False),
        ("lag_seconds<60", False),
        ("lag_seconds==90.0", True),
        ("lag_seconds!=90", False),
        ("lag_records>=10", True),
        ("lag_records<=9", False),
        ("stalled>0", True),
        ("failed>0", False),
    ],
)
def test_a_figure_is_compared_with_a_number(condition: str, holds: bool) -> None:
    assert bool(parse_condition(condition).holds_in(behind())) is holds


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_can_be_asked_for(figure: str) -> None:
    (sentence,) = parse_condition(f"{figure}>=0").holds_in(behind())  # every partition is known
    assert sentence.startswith(f"A->B: {figure} is ")


def test_every_flow_is_looked_at_and_named() -> None:
    status = mirror_status(flows=[flow_status("A->B", errors=2), flow_status("A->C"), flow_status("C->A", errors=1)])
    assert parse_condition("failed>0").holds_in(status) == [
        "A->B: failed is 2 (failed>0)",
        "C->A: failed is 1 (failed>0)",
    ]


@pytest.mark.parametrize("condition", ["lag_seconds>60", "lag_records>1000", "lag_bytes>1", "lag_seconds<60"])
def test_lag_that_nobody_knows_counts_as_too_much(condition: str) -> None:
    (sentence,) = parse_condition(condition).holds_in(behind(None, unknown=4))
    assert sentence == f"A->B: {condition.rstrip('<>0123456789')} of 4 partitions is not known ({condition})"


@pytest.mark.parametrize("condition", ["lag_seconds>10", "lag_seconds<10", "lag_records>=0", "lag_records<=0"])
def test_a_source_that_is_silent_fails_every_condition_on_lag_with_a_plain_reason(condition: str) -> None:
    flow = flow_status(
        unknown_lanes=3, least_lag_records=0, behind_since_ms=-1, source_end_age_ms=15_400, silent_lanes=3
    )
    (sentence,) = parse_condition(condition).holds_in(mirror_status(flows=[flow]))
    assert sentence == (
        f"A->B: {condition[:11]} of 3 partitions is not known, the source has not reported its end for 15 s"
        f" ({condition})"
    )
    assert parse_condition("failed>0").holds_in(mirror_status(flows=[flow])) == []


@pytest.mark.parametrize("condition", ["lag_seconds>10", "lag_seconds<10", "lag_records<=0"])
def test_before_the_first_discovery_no_lag_is_known(condition: str) -> None:
    flow = flow_status(lanes=0, unknown_lanes=0, least_lag_records=0)
    said = parse_condition(condition).holds_in(mirror_status(flows=[flow]))
    assert said == [f"A->B: {condition[:11]} is not known, no partition was discovered yet ({condition})"]


@pytest.mark.parametrize("condition", ["unknown>0", "unknown>100", "unknown==0"])
def test_before_the_first_discovery_nobody_knows_how_many_partitions_are_unknown(condition: str) -> None:
    away = flow_status(lanes=0, unknown_lanes=0, discovered=False, waiting_for="cluster 'A'")
    (said,) = parse_condition(condition).holds_in(mirror_status(flows=[away]))
    assert said == (
        "A->B: its number of partitions is not known, no topic was discovered yet, it waits for cluster 'A'"
        f" ({condition})"
    )


def test_a_flow_that_is_stopped_or_taken_over_with_its_partitions_is_not_waited_for() -> None:
    stopped = flow_status(lanes=0, unknown_lanes=0, discovered=False, desired=Desired.STOPPED)
    taken_over = flow_status(lanes=3, unknown_lanes=0, discovered=False)
    assert parse_condition("unknown>0").holds_in(mirror_status(flows=[stopped, taken_over])) == []


def test_what_is_known_in_part_is_told_where_it_is_enough() -> None:
    said = parse_condition("lag_seconds>60").holds_in(behind(unknown=4))
    assert said == ["A->B: lag_seconds is at least 90 (lag_seconds>60)"]
    (unsettled,) = parse_condition("lag_seconds<100").holds_in(behind(unknown=4))
    assert unsettled == "A->B: lag_seconds of 4 partitions is not known (lag_seconds<100)"


def test_nothing_behind_is_no_lag() -> None:
    assert parse_condition("lag_seconds>0").holds_in(behind(None)) == []


@pytest.mark.parametrize(
    "text",
    ["", "lag", "lag_seconds", "lag_seconds>", ">60", "lag_seconds>60s", "lag_seconds=60", "lag>60", "x>1"],
)
def test_what_cannot_be_read_is_refused_with_what_can(text: str) -> None:
    with pytest.raises(BadCondition, match="lag_seconds") as bad:
        parse_condition(text)
    assert repr(text) in str(bad.value)
