"""The step from one look to the next: changes of the source, drift of copies, and what becomes of them."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.config_history.advance import MARK_MS, SNAPSHOT_MS, SYNC_OFF
from engine.flow.config_history.expected import UNSET
from engine.flow.config_history.look import Values
from engine.flow.config_history.rows import RAYMIRROR, HistoryRow
from engine.flow.config_history.state import ConfigOf, HistoryState, restored, stored_value
from engine.flow.config_history.values import WriteTried
from policies.patterns import PatternList
from policies.sync.topic_configs import ConfigRules
from tests.unit.engine.flow.config_history.rounds import Days, history_flow

KEY = "retention.ms"
PLACE = ("orders", KEY)


def own(value: str | None) -> dict[str, Values]:
    """Make one topic with that override, or without one."""
    return {"orders": {} if value is None else {KEY: value}}


def began(source: str | None = "5", copy: str | None = "5", days: Days | None = None) -> Days:
    """Make a history that has seen a topic and its copy."""
    made = days or Days()
    made.round(own(source), own(copy))
    return made


def test_the_first_round_is_a_snapshot_and_tells_of_no_change() -> None:
    days = Days()
    step = days.round({"orders": {KEY: "5"}, "plain": {}}, {"orders": {KEY: "6"}}, {PLACE: WriteTried("5")})
    assert (step.rows.changes, step.rows.drift, step.new_drift) == ([], [], ())
    found = [
        (row.side, row.topic, row.key, row.value, row.origin, row.set_by, row.snapshot) for row in step.rows.values
    ]
    assert found == [
        ("source", "orders", KEY, "5", "topic", "", True),
        ("source", "plain", "", None, "exists", "", True),
        ("source", "", KEY, "604800000", "kafka", "", True),
        ("copy", "orders", KEY, "6", "topic", "", True),
        ("copy", "", KEY, "604800000", "kafka", "", True),
        ("copy", "orders", KEY, "5", "topic", "raymirror", False),
        ("", "", "", None, "mark", "", False),
    ]
    assert {row.target for row in step.rows.values if row.topic == "orders"} == {"A.orders"}


def test_a_round_that_sees_nothing_new_stores_nothing_and_a_mark_once_an_hour() -> None:
    days = began()
    assert len(days.round(own("5"), own("5")).rows) == 0
    days.at_ms += MARK_MS
    (mark,) = days.round(own("5"), own("5")).rows.values
    assert (mark.origin, mark.at_ms, mark.after_ms) == ("mark", days.at_ms, days.at_ms - 100)
    assert len(days.round(own("5"), own("5")).rows) == 0


def test_a_change_of_the_source_has_its_time_on_both_sides() -> None:
    days = began()
    days.round(own("7"), own("5"), {PLACE: WriteTried("7")})
    (change,) = days.changes
    assert (change.old, change.new, change.outcome, change.set_by, change.why) == ("5", "7", "copied", RAYMIRROR, "")
    assert (change.after_ms, change.seen_ms, change.applied_ms, change.latency_ms) == (900, 2_000, 2_050, 50)
    rows = [(row.side, row.before, row.value, row.at_ms, row.set_by) for row in days.values if row.at_ms >= 2_000]
    assert rows[:2] == [("source", "5", "7", 2_000, ""), ("copy", "5", "7", 2_050, RAYMIRROR)]
    assert days.drift == []
    assert len(days.round(own("7"), own("7")).rows) == 0


def test_a_change_that_is_refused_waits_and_is_told_once() -> None:
    days = began()
    days.round(own("7"), own("5"), {PLACE: WriteTried("7", "PolicyViolation")})
    days.round(own("7"), own("5"), {PLACE: WriteTried("7", "PolicyViolation")})
    (change,) = days.changes
    assert (change.outcome, change.why, change.applied_ms) == ("failed", "PolicyViolation", None)
    days.round(own("7"), own("5"), {PLACE: WriteTried("7")})
    (change,) = days.last_changes
    assert (change.outcome, change.why, change.applied_ms, change.latency_ms) == ("copied", "", 4_050, 2_050)


def test_a_change_that_the_copy_has_already_is_copied_by_nobody_knows_whom() -> None:
    days = began()
    days.round(own("7"), own("7"))
    (change,) = days.changes
    assert (change.outcome, change.set_by, change.applied_ms) == ("copied", "", 2_000)
    assert days.drift == []


@pytest.mark.parametrize(
    ("rules", "syncs", "conflict", "outcome", "why"),
    [
        (ConfigRules(exclude=PatternList(["retention.*"])), True, "", "left", "config.properties.exclude names it"),
        (ConfigRules(), False, "", "left", SYNC_OFF),
        (ConfigRules(), True, "it would be lowered", "conflict", "it would be lowered"),
        (ConfigRules(), True, "", "waits", "the next round sets it"),
    ],
)
def test_what_does_not_reach_the_copy_says_why(
    rules: ConfigRules, syncs: bool, conflict: str, outcome: str, why: str
) -> None:
    days = began(days=Days(history_flow(syncs=syncs, rules=rules)))
    days.round(own("7"), own("5"), conflicts={PLACE: conflict} if conflict else {})
    days.round(own("7"), own("5"), conflicts={PLACE: conflict} if conflict else {})
    (change,) = days.changes
    assert (change.outcome, change.why) == (outcome, why)
    assert days.drift == [], "the copy is as it was"
    days.round(own("7"), own("7"))
    assert [row.outcome for row in days.last_changes] == ["left" if outcome == "left" else "copied"]


def test_a_change_before_the_last_one_was_copied_ends_it() -> None:
    days = began()
    days.round(own("7"), own("5"), {PLACE: WriteTried("7", "no")})
    days.round(own("8"), own("5"), {PLACE: WriteTried("8")})
    assert [(row.new, row.outcome) for row in days.last_changes] == [("7", "changed_again"), ("8", "copied")]
    assert not days.drift


def test_a_topic_that_goes_ends_what_stands() -> None:
    days = began()
    days.round(own("7"), own("9"), {PLACE: WriteTried("7", "no")})
    days.round({}, {})
    assert [row.outcome for row in days.last_changes] == ["topic_gone"]
    assert [(row.outcome, row.settled_ms) for row in days.last_drift] == [("topic_gone", 3_000)]
    gone = [(row.side, row.key, row.origin) for row in days.values if row.origin == "gone"]
    assert gone == [("source", "", "gone"), ("source", KEY, "gone"), ("copy", "", "gone"), ("copy", KEY, "gone")]
    days.round(own("7"), own("7"))
    assert len(days.changes) + len(days.drift) == 4, "a topic that comes is no change"


def test_drift_that_is_set_right_in_the_same_round_is_one_row() -> None:
    days = began()
    step = days.round(own("5"), own("9"), {PLACE: WriteTried("5")})
    (row,) = days.drift
    assert step.new_drift == (row,)
    assert (row.expected, row.before, row.found) == ("5", "5", "9")
    assert (row.outcome, row.set_by, row.after_ms, row.seen_ms, row.settled_ms) == (
        "set_right",
        RAYMIRROR,
        900,
        2_000,
        2_050,
    )
    assert [one.value for one in days.values if one.side == "copy" and one.topic] == ["5", "9", "5"]
    assert len(days.round(own("5"), own("5")).rows) == 0


def test_an_override_that_somebody_removed_is_drift() -> None:
    days = began()
    days.round(own("5"), own(None), {PLACE: WriteTried("5")})
    (row,) = days.drift
    assert (row.expected, row.found, row.outcome) == ("5", None, "set_right")


def test_drift_that_is_left_stands_until_it_goes() -> None:
    days = began(None, None)
    days.round(own(None), own("9"))
    days.round(own(None), own("9"))
    (row,) = days.drift
    assert (row.expected, row.found, row.outcome, row.why, row.settled_ms) == (None, "9", "left", UNSET, None)
    days.round(own(None), own(None))
    (row,) = days.last_drift
    assert (row.outcome, row.settled_ms, row.updated_ms, row.set_by) == ("equal_again", 4_000, 4_000, "")
    assert len(days.round(own(None), own(None)).rows) == 0


def test_drift_of_an_excluded_config_is_left() -> None:
    days = Days()
    days.round({"t": {"min.insync.replicas": "2"}}, {"t": {"min.insync.replicas": "2"}})
    days.round({"t": {"min.insync.replicas": "2"}}, {"t": {"min.insync.replicas": "1"}})
    (row,) = days.drift
    assert (row.expected, row.found, row.outcome) == ("2", "1", "left")
    assert row.why == "config.properties.exclude names it"


def test_drift_while_sync_is_off_is_left() -> None:
    days = began(days=Days(history_flow(syncs=False)))
    days.round(own("5"), own("9"))
    (row,) = days.drift
    assert (row.expected, row.outcome, row.why) == ("5", "left", SYNC_OFF)


def test_drift_that_changes_again_is_a_drift_of_its_own_with_the_first_expectation() -> None:
    days = began(None, None)
    days.round(own(None), own("9"))
    days.round(own(None), own("8"))
    first, second = days.last_drift
    assert (first.found, first.outcome, first.settled_ms) == ("9", "changed_again", 3_000)
    assert (second.before, second.found, second.expected, second.outcome) == ("9", "8", None, "left")


def test_drift_that_could_not_be_set_right_is_told_until_it_could() -> None:
    days = began()
    days.round(own("5"), own("9"), {PLACE: WriteTried("5", "denied")})
    days.round(own("5"), own("9"), {PLACE: WriteTried("5", "denied")})
    assert [(row.outcome, row.why) for row in days.drift] == [("failed", "denied")]
    days.round(own("5"), own("9"), {PLACE: WriteTried("5")})
    (row,) = days.last_drift
    assert (row.outcome, row.set_by, row.settled_ms, row.why) == ("set_right", RAYMIRROR, 4_050, "")


def test_a_copy_that_gets_what_the_source_has_is_no_drift() -> None:
    days = began("5", None)
    days.round(own("5"), own("5"))
    assert days.drift == [], "raymirror apply, or a write of a process that was killed before it could tell"


def test_a_late_write_of_the_last_value_of_the_source_is_no_drift() -> None:
    days = began("5", None)
    days.round(own("7"), own("5"), {PLACE: WriteTried("7")})
    assert days.drift == []
    assert [row.outcome for row in days.changes] == ["copied"]


def test_a_removal_on_both_sides_is_a_change_and_no_drift() -> None:
    days = began()
    days.round(own(None), own(None))
    (change,) = days.changes
    assert (change.old, change.new, change.outcome) == ("5", None, "copied")
    assert days.drift == []


def test_a_removal_that_the_copy_does_not_follow_is_left() -> None:
    days = began()
    days.round(own(None), own("5"))
    assert [(row.outcome, row.why) for row in days.changes] == [("left", UNSET)]


def test_an_unread_copy_is_as_it_was() -> None:
    days = began()
    step = days.round(own("5"), {}, unread=["orders"])
    assert len(step.rows) == 0
    days.round(own("5"), own("9"), {PLACE: WriteTried("5")})
    assert [row.outcome for row in days.drift] == ["set_right"]


def test_a_restart_sees_what_changed_meanwhile_between_the_last_mark_and_now() -> None:
    days = began()
    days.restart()
    days.at_ms += 60_000
    days.round(own("7"), own("9"), {PLACE: WriteTried("7")})
    (change,), (row,) = days.changes, days.drift
    assert (change.after_ms, change.seen_ms, change.outcome) == (900, 62_000, "copied")
    assert (row.after_ms, row.seen_ms, row.expected, row.found, row.outcome) == (900, 62_000, "7", "9", "set_right")


def test_a_restart_goes_on_with_what_stands() -> None:
    days = began(None, None)
    days.round({**own("5"), "p": {}}, {**own("9"), "p": {}}, {PLACE: WriteTried("5", "denied")})
    days.restart()
    days.round({**own("5"), "p": {}}, {**own("5"), "p": {}})
    assert [row.outcome for row in days.last_changes] == ["copied"]
    assert [row.outcome for row in days.last_drift] == ["equal_again"]


def test_rows_whose_values_were_not_stored_are_not_made_twice() -> None:
    days = began()
    values = list(days.values)
    days.round(own("7"), own("5"), {PLACE: WriteTried("7")})
    days.round({**own("7")}, own("9"), {PLACE: WriteTried("7", "denied")})
    days.values = values  # the process was killed before the last of three commits
    days.restart()
    days.round(own("7"), own("9"), {PLACE: WriteTried("7")})
    assert [(row.new, row.outcome) for row in days.last_changes] == [("7", "copied")]
    assert [(row.found, row.outcome) for row in days.last_drift] == [("9", "set_right")]


def test_a_default_of_the_cluster_has_rows_without_a_topic_and_makes_no_change() -> None:
    days = Days()
    days.round({"t": {}}, {"t": {}})
    assert days.state is not None
    assert days.state.source.defaults[KEY].value == "604800000"
    assert [row.origin for row in days.values if not row.topic and row.key] == ["kafka", "kafka"]


def test_all_values_are_stored_again_after_a_month() -> None:
    days = began()
    days.at_ms += SNAPSHOT_MS
    step = days.round({**own("6"), "p": {}}, own("5"), {PLACE: WriteTried("6")})
    told = [(row.side, row.topic, row.key, row.value, row.snapshot) for row in step.rows.values]
    assert ("copy", "orders", KEY, "5", True) in told
    assert ("source", "orders", KEY, "6", False) in told
    assert len(days.round({**own("6"), "p": {}}, own("6")).rows) == 0
    since = [row for row in days.values if row.at_ms >= step.state.snapshot_ms]
    alone = restored(map(stored_value, since), (), ())
    assert alone is not None
    assert days.state is not None
    assert (alone.source, alone.copies) == (days.state.source, days.state.copies)


def test_a_clock_that_is_set_back_keeps_the_order_of_rows() -> None:
    days = began()
    days.at_ms -= 500_000
    step = days.round(own("7"), own("5"), {PLACE: WriteTried("7")})
    assert [row.at_ms for row in step.rows.values] == [1_001, 1_002, 1_001]
    assert days.restored() == step.state


# --- any history ---------------------------------------------------------------------------------------------------

topics = st.sampled_from(["a", "b", "c"])
keys = st.sampled_from([KEY, "segment.ms", "min.insync.replicas"])
values = st.sampled_from(["1", "2", "3"])
sides = st.dictionaries(topics, st.dictionaries(keys, values, max_size=3), max_size=3)
writes = st.dictionaries(
    st.tuples(topics, keys), st.builds(WriteTried, st.none() | values, st.sampled_from(["", "denied"])), max_size=4
)
rounds = st.lists(st.tuples(sides, sides, writes, st.sets(topics, max_size=1)), min_size=1, max_size=6)


def plain(state: HistoryState | None) -> dict[str, dict[str, dict[str, str | None]]]:
    assert state is not None
    return {
        name: {topic: dict(own) for topic, own in one.topics.items()}
        for name, one in (("source", state.source), ("copies", state.copies))
    }


@given(rounds)
def test_the_rows_up_to_any_time_are_the_snapshot_of_that_time(told: list[tuple[dict, dict, dict, set]]) -> None:  # type: ignore[type-arg]
    days, seen = Days(), list[tuple[int, HistoryState]]()
    for source, copies, tried, unread in told:
        copies = {topic: own for topic, own in copies.items() if topic not in unread}
        before = plain(days.state)["copies"] if days.state else {}
        step = days.round(source, copies, tried, unread=unread)
        seen.append((step.state.at_ms, step.state))
        assert plain(step.state)["source"] == source
        expected = {topic: dict(own) for topic, own in copies.items()}
        expected |= {topic: dict(before[topic]) for topic in unread if topic in before}
        for (topic, key), write in tried.items():
            if topic in expected and not write.failure:
                expected[topic].pop(key, None)
                expected[topic] |= {} if write.value is None else {key: write.value}
        assert plain(step.state)["copies"] == expected
    for at_ms, state in seen:
        rows = [row for row in days.values if row.at_ms <= at_ms]
        assert plain(restored(map(stored_value, rows), (), ())) == plain(state)


@given(rounds)
def test_a_process_that_starts_between_any_two_rounds_makes_the_same_rows(
    told: list[tuple[dict, dict, dict, set]],  # type: ignore[type-arg]
) -> None:
    days, restarted = Days(), Days()
    for source, copies, tried, unread in told:
        copies = {topic: own for topic, own in copies.items() if topic not in unread}
        one = days.round(source, copies, tried, unread=unread)
        restarted.restart()
        other = restarted.round(source, copies, tried, unread=unread)
        assert _without_bounds(other.rows.drift) == _without_bounds(one.rows.drift)
        assert _without_bounds(other.rows.changes) == _without_bounds(one.rows.changes)
        moved = [row for row in one.rows.values if row.origin != "mark"]
        assert _without_bounds([row for row in other.rows.values if row.origin != "mark"]) == _without_bounds(moved)
    standing = [row for row in days.last_drift if row.settled_ms is None]
    assert {ConfigOf(row.topic, row.key): row.found for row in standing} == {
        place: row.found
        for place, row in days.state.drift.items()  # type: ignore[union-attr]
    }


def _without_bounds(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """Return rows without the time before which a restarted process knows nothing."""
    return [msgspec.structs.replace(row, after_ms=0) for row in rows]
