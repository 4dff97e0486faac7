"""The tables of groups: which are mirrored, committed, reported."""

import math

import pytest

from policies.groups import (
    BACKWARDS,
    GroupSelection,
    GroupState,
    OwnCommit,
    Why,
    WrittenCheckpoint,
    barred,
    must_write,
    renew_after_s,
    state_of,
    sync_every_s,
    unsupported,
    wanted,
)
from policies.patterns import BadPattern


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("orders", None),
        ("console-consumer-12", "in groups.exclude"),
        ("connect-sink", "in groups.exclude"),
        ("__x", "in groups.exclude"),
        ("my-connect-sink", None),
    ],
)
def test_the_default_filter_is_mm2s(group: str, why: str | None) -> None:
    assert GroupSelection().why_not(group) == why


def test_include_and_exclude_match_whole_names_and_exclude_wins() -> None:
    selection = GroupSelection(["a.*", "b"], ["ab.*"])
    assert [selection.why_not(group) for group in ("aa", "b", "bb", "abc")] == [
        None,
        None,
        "not in groups",
        "in groups.exclude",
    ]
    with pytest.raises(BadPattern):
        GroupSelection(["("])


@pytest.mark.parametrize(
    ("protocol_type", "kind", "why"),
    [
        ("consumer", "classic", None),
        ("consumer", "consumer", None),
        ("", "classic", None),
        ("consumer", "", None),
        ("share", "share", "share group"),
        ("streams", "streams", "streams group"),
        ("connect", "classic", "group of protocol type connect"),
    ],
)
def test_only_consumer_groups_are_mirrored(protocol_type: str, kind: str, why: str | None) -> None:
    assert unsupported(protocol_type, kind) == why


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("Empty", GroupState.INACTIVE),
        ("Dead", GroupState.ABSENT),
        ("Stable", GroupState.ACTIVE),
        ("Assigning", GroupState.ACTIVE),
        ("PreparingRebalance", GroupState.ACTIVE),
        ("", GroupState.ACTIVE),
        ("NeverHeardOf", GroupState.ACTIVE),
    ],
)
def test_a_state_that_is_not_known_is_taken_for_active(name: str, state: GroupState) -> None:
    assert state_of(name) is state


def test_only_a_group_with_members_is_barred() -> None:
    assert [barred(state) for state in (GroupState.ABSENT, GroupState.INACTIVE, GroupState.ACTIVE)] == [
        None,
        None,
        Why.ACTIVE,
    ]


OURS = OwnCommit(source=100, target=50)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("stored", "source", "target", "ours", "age_s", "why"),
    [
        (None, 100, 50, None, None, Why.NEW),
        (None, 100, 50, OURS, 5.0, Why.NEW),  # expired, or deleted by somebody
        (49, 100, 50, None, None, Why.MOVED_ON),
        (49, 90, 50, OURS, 5.0, Why.MOVED_ON),
        (50, 100, 50, OURS, 9.9, Why.EQUAL),
        (50, 100, 50, OURS, 10.0, Why.RENEWED),
        (50, 100, 50, None, None, Why.RENEWED),
        (50, 80, 40, OURS, 5.0, Why.FOLLOWED),
        (50, 80, 40, OURS, None, Why.FOLLOWED),
        (50, 100, 40, OURS, 5.0, Why.CORRECTED),
        (50, 120, 40, OURS, None, Why.CORRECTED),
    ],
)
def test_what_is_committed(
    stored: int | None, source: int, target: int, ours: OwnCommit | None, age_s: float | None, why: Why, backwards: bool
) -> None:
    assert wanted(stored, source, target, ours, age_s=age_s, renew_after_s=10.0, backwards=backwards) is why


@pytest.mark.parametrize(
    ("stored", "source", "ours"),
    [
        (60, 80, OURS),  # somebody on the target read on, so it is not ours to take back
        (50, 80, None),  # nobody knows who stored it
    ],
)
def test_the_target_is_not_taken_back_unless_asked(stored: int, source: int, ours: OwnCommit | None) -> None:
    assert wanted(stored, source, 40, ours, age_s=0.0, renew_after_s=10.0) is Why.TARGET_AHEAD
    assert wanted(stored, source, 40, ours, age_s=0.0, renew_after_s=10.0, backwards=True) is Why.ASKED


def test_what_is_only_near_does_not_take_back_what_we_committed() -> None:
    near = wanted(50, 100, 40, OURS, age_s=0.0, renew_after_s=10.0, exact=False)
    assert near is Why.TARGET_AHEAD


def test_which_reasons_commit() -> None:
    assert {why for why in Why if not why.commits} == {Why.EQUAL, Why.TARGET_AHEAD, Why.ACTIVE}
    assert all(why.commits for why in BACKWARDS)


def test_commits_are_renewed_before_half_of_the_retention_with_a_round_between() -> None:
    minute = 60.0
    assert renew_after_s(minute) + sync_every_s(60.0, minute) <= minute / 2
    assert sync_every_s(5.0, 7 * 86_400.0) == 5.0
    assert (renew_after_s(None), sync_every_s(60.0, None)) == (math.inf, 60.0)


def test_an_exact_checkpoint_is_told_where_it_differs() -> None:
    known = WrittenCheckpoint(100, 50, "m")
    assert must_write(None, known, exact=True)
    assert not must_write(known, known, exact=True)
    assert not must_write(
        known, WrittenCheckpoint(101, 50, "m"), exact=True
    )  # across a hole: the same place for a reader
    assert must_write(known, WrittenCheckpoint(101, 51, "m"), exact=True)
    assert must_write(known, WrittenCheckpoint(100, 40, "m"), exact=True)  # the target lost records
    assert must_write(known, WrittenCheckpoint(100, 50, "n"), exact=True)


def test_an_approximate_checkpoint_goes_by_mm2s_filter() -> None:
    known = WrittenCheckpoint(100, 50)
    assert must_write(None, known, exact=False)
    assert not must_write(known, known, exact=False)
    assert not must_write(known, WrittenCheckpoint(120, 49), exact=False)
    assert must_write(known, WrittenCheckpoint(120, 51), exact=False)
    assert must_write(known, WrittenCheckpoint(99, 20), exact=False)


@pytest.mark.parametrize(
    ("span", "target"), [(None, 120), ((0, 150), 120), ((0, 110), 110), ((130, 150), 130), ((140, 140), 140)]
)
def test_a_checkpoint_is_held_within_the_log(span: tuple[int, int] | None, target: int) -> None:
    assert WrittenCheckpoint(20, 120, "m").within(span) == WrittenCheckpoint(20, target, "m")
