"""The verdict on a copier: each line of the table, and each boundary."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.placement.health import CopierHealth, HealthLimits, Sighting, judge, reason

LIMITS = HealthLimits(start_s=60.0, late_s=3.0, hung_s=10.0, margin_s=1.0)
WAITED = "started 61 s ago and has not answered yet"
WELL = Sighting(now_s=100.0, started_s=0.0, last_report_s=99.0, beat_changed_s=99.0, lease_until_s=105.0)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, CopierHealth.OK, ""),
        ({"last_report_s": 97.0, "beat_changed_s": 97.0}, CopierHealth.OK, ""),
        ({"last_report_s": 96.5}, CopierHealth.SLOW, "no report for 3.5 s"),
        ({"beat_changed_s": 89.0}, CopierHealth.OK, ""),
        ({"beat_changed_s": 88.0}, CopierHealth.HUNG, "it reports, but its data loop has made no progress for 11.0 s"),
        # It stood still when it last reported; that it reports late now makes it no better.
        (
            {"beat_changed_s": 80.0, "last_report_s": 95.0},
            CopierHealth.HUNG,
            "it reports, but its data loop has made no progress for 15.0 s",
        ),
        # Nothing was heard since, so nobody knows whether the loop goes round.
        ({"beat_changed_s": 88.5, "last_report_s": 89.0}, CopierHealth.SLOW, "no report for 11.0 s"),
        ({"lease_until_s": 99.0}, CopierHealth.OK, ""),
        ({"lease_until_s": 98.5, "last_report_s": 90.0}, CopierHealth.LOST, "its lease ran out 1.5 s ago"),
        ({"lease_until_s": 98.5, "beat_changed_s": 50.0}, CopierHealth.LOST, "its lease ran out 1.5 s ago"),
        ({"died": True}, CopierHealth.DEAD, "its process has ended"),
        ({"died": True, "lease_until_s": 0.0, "last_report_s": None}, CopierHealth.DEAD, "its process has ended"),
        ({"last_report_s": None, "lease_until_s": 0.0, "started_s": 40.0}, CopierHealth.OK, ""),
        (
            {"last_report_s": None, "lease_until_s": 0.0, "started_s": 39.0},
            CopierHealth.SLOW,
            WAITED,
        ),
        (
            {"last_report_s": None, "lease_until_s": 0.0, "started_s": 39.0, "answered_s": 40.0},
            CopierHealth.SLOW,
            WAITED,
        ),
        (
            {"last_report_s": None, "lease_until_s": 0.0, "answered_s": 39.0},
            CopierHealth.HUNG,
            "it has started but never reported",
        ),
    ],
)
def test_verdict_and_its_words(changes: dict[str, float | bool | None], verdict: CopierHealth, words: str) -> None:
    sighting = msgspec.structs.replace(WELL, **changes)
    assert judge(sighting, LIMITS) is verdict
    assert reason(sighting, LIMITS) == words


SECONDS = st.floats(0, 200)
SIGHTINGS = st.builds(
    Sighting,
    now_s=SECONDS,
    started_s=SECONDS,
    last_report_s=st.none() | SECONDS,
    beat_changed_s=SECONDS,
    lease_until_s=SECONDS,
    died=st.booleans(),
    answered_s=st.none() | SECONDS,
)


@given(SIGHTINGS)
def test_sets_are_free_only_when_the_process_or_the_lease_has_ended(sighting: Sighting) -> None:
    if judge(sighting, LIMITS) in (CopierHealth.DEAD, CopierHealth.LOST):
        assert sighting.died or sighting.now_s > sighting.lease_until_s + LIMITS.margin_s
    assert bool(reason(sighting, LIMITS)) == (judge(sighting, LIMITS) is not CopierHealth.OK)
