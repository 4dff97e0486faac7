"""What switchovers store of the stints that they end, and the chain of maps that a later one finds."""

from collections.abc import Sequence

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun, MapStart
from engine.core.position.position import Position
from engine.core.refused.entries import RefusedMark, RefusedState
from engine.flow.groups.map_chain import ClosedMap, LaneChain, PartedOrder
from engine.flow.operations.reading import OperationCopy
from engine.flow.operations.stints import (
    CLOSED_NOTES,
    START_NOTES,
    TOPICS_NOTES,
    ClosedRow,
    MapTopics,
    Stints,
    StoredStart,
    closed_row,
    replayed_to,
    stints_of,
)
from engine.state.state import Key, OperationEntry, OperationNotes, Value, notes_key, operation_key
from policies.dr.operation_steps import FAILBACK
from policies.dr.operations import DrOperation, NotesPlace, OperationState, StepRecord, StepState
from policies.model import FlowName, TopicPartition
from tests.unit.engine.core.refused.test_entries import FACTS

AB, BA = FlowName("A", "B"), FlowName("B", "A")
HERE, THERE = TopicPartition("t", 0), TopicPartition("copy.t", 0)
OTHER = TopicPartition("t", 1)


def position(source_next: int, **changes: object) -> Position:
    blank = Position(
        source_next=source_next,
        target_next=source_next + 2,
        sequence=0,
        producer_id=1,
        producer_epoch=0,
        runs=(),
        assignment_epoch=1,
        deployment_id="d",
        map_generation=7,
        map_source=0,
        map_target=1,
        map_first=True,
        map_tail=(MapRun(0, 1, source_next - 1),),
    )
    return msgspec.structs.replace(blank, **changes)


def started(lane: TopicPartition, offset: int) -> dict[TopicPartition, StoredStart]:
    return {lane: StoredStart(*lane, offset)}


class Stored:
    """Operations and their notes, as one cluster has them."""

    def __init__(self) -> None:
        self.entries: dict[Key, Value] = {}
        self._began_ms = 0

    def operation(
        self,
        flow: FlowName,
        *,
        kind: str = "switchover",
        state: OperationState = OperationState.FINISHED,
        starts: Sequence[StoredStart] | None = None,
        closed: Sequence[ClosedRow] | None = None,
        topics: Sequence[MapTopics] | None = None,
        begun: Sequence[str] = (),
    ) -> None:
        self._began_ms += 1
        name, notes = str(self._began_ms), {START_NOTES: starts, CLOSED_NOTES: closed, TOPICS_NOTES: topics}
        kept = {one: NotesPlace(1, 1) for one, rows in notes.items() if rows is not None}
        operation = DrOperation(
            id=name,
            kind=kind,
            **flow._asdict(),
            who="ann",
            began_ms=self._began_ms,
            state=state,
            steps=tuple(StepRecord(name=step, state=StepState.BEGUN, began_ms=1) for step in begun),
            notes=kept,
        )
        self.entries[operation_key(name)] = OperationEntry(operation=operation)
        for one in kept:
            rows = tuple(msgspec.Raw(msgspec.json.encode(row)) for row in notes[one] or ())
            self.entries[notes_key(name, one, 1, 0)] = OperationNotes(rows=rows)

    def of(self, flow: FlowName) -> Stints:
        return stints_of(OperationCopy(entries=self.entries), flow)


def test_the_map_of_a_position_is_stored_whole() -> None:
    found = position(9, map_blocks=3)
    row = msgspec.json.decode(msgspec.json.encode(closed_row(HERE, found)), type=ClosedRow)
    assert (row.lane, row.closed()) == (HERE, ClosedMap(head=found.map_head, start=found.map_start))
    blank = position(9, map_source=-1, map_target=-1, map_tail=())
    assert closed_row(HERE, blank).closed().start == MapStart(9, 11, first=False)


def test_the_switchovers_that_led_here_are_a_chain_of_maps() -> None:
    stored, first, second = Stored(), closed_row(THERE, position(5)), closed_row(HERE, position(6))
    stored.operation(BA, starts=[StoredStart("t", 0, 1)], closed=[])
    stored.operation(AB, starts=[StoredStart("copy.t", 0, 20)], closed=[first])
    stored.operation(AB, kind="move")
    stored.operation(BA, starts=[StoredStart("t", 0, 30), StoredStart("t", 1, 4)], closed=[second])
    found = stored.of(AB)
    assert found == Stints(
        starts=(started(HERE, 30) | started(OTHER, 4), started(THERE, 20), started(HERE, 1)),
        closed=({HERE: second}, {THERE: first}, {}),
    )
    assert found.chains(lambda topic: f"copy.{topic}", {OTHER: 3}, {THERE: 4}) == {
        HERE: LaneChain(back=THERE, starts=(30, 20, 1), earlier=(second.closed(), first.closed()), exact_back_from=4),
        OTHER: LaneChain(back=TopicPartition("copy.t", 1), starts=(4,), exact_from=3),
    }
    assert stored.of(BA) == Stints(), "the last one led to the other direction"
    assert Stored().of(AB).chains(str, {}, {}) == {}


@pytest.mark.parametrize("state", [OperationState.RUNNING, OperationState.ABORTED])
def test_what_an_unfinished_switchover_has_taken_from_positions_is_the_last_map(state: OperationState) -> None:
    stored, row = Stored(), closed_row(HERE, position(5))
    stored.operation(AB, state=OperationState.ABORTED, closed=[closed_row(HERE, position(3))])
    stored.operation(BA, starts=[StoredStart("t", 0, 9)], closed=[])
    assert stored.of(AB).last == {}, "that was an attempt of an earlier stint"
    stored.operation(AB, state=state, closed=[row])
    stored.operation(AB, state=OperationState.ABORTED)  # its check has failed
    found = stored.of(AB)
    assert (found.starts, found.last) == ((started(HERE, 9),), {HERE: row})
    assert found.chains(str, {}, {})[HERE].last == row.closed()


STEPS = [rule.name for rule in FAILBACK]


@pytest.mark.parametrize(
    ("state", "begun", "counts"),
    [
        (OperationState.FINISHED, STEPS, False),
        (OperationState.ABORTED, STEPS[: STEPS.index("late-copy")], True),
        (OperationState.ABORTED, STEPS[: STEPS.index("late-copy") + 1], False),
        (OperationState.ABORTED, [], True),
    ],
)
def test_nothing_before_a_failback_counts_that_has_not_stored_where_the_stint_began(
    state: OperationState, begun: list[str], counts: bool
) -> None:
    """One that was taken back before its point of no return has changed nothing."""
    stored, row = Stored(), closed_row(HERE, position(3))
    stored.operation(BA, starts=[StoredStart("t", 0, 9)], closed=[])
    stored.operation(AB, state=OperationState.ABORTED, closed=[row])
    stored.operation(AB, kind="failback", state=OperationState.RUNNING)
    assert stored.of(AB).starts == (started(HERE, 9),), "it asks itself"
    stored.operation(AB, kind="failback", state=state, begun=begun)
    assert stored.of(BA) == Stints()
    assert stored.of(AB) == (Stints(starts=(started(HERE, 9),), closed=({},), last={HERE: row}) if counts else Stints())
    stored.operation(BA, starts=[StoredStart("t", 0, 19)], closed=[])
    assert stored.of(AB).starts == (started(HERE, 19),)


@pytest.mark.parametrize("state", [OperationState.FINISHED, OperationState.RUNNING])
def test_a_failback_begins_a_stint_where_the_order_of_records_may_have_parted(state: OperationState) -> None:
    """Its last step lets the reverse flow run before the failback has ended."""
    stored, parted, row = Stored(), PartedOrder(12, 14), closed_row(THERE, position(5))
    stored.operation(BA, starts=[StoredStart("t", 0, 9)], closed=[])
    stored.operation(AB, kind="failback", state=state, starts=[StoredStart("copy.t", 0, 20, parted)], closed=[row])
    found = stored.of(BA)
    assert [list(map(msgspec.structs.astuple, one.values())) for one in found.starts] == [
        [("copy.t", 0, 20, parted)],
        [("t", 0, 9, None)],
    ]
    chain = found.chains(lambda topic: topic.removeprefix("copy."), {}, {})[THERE]
    assert (chain.starts, chain.parted, chain.earlier) == ((20, 9), {0: parted}, (row.closed(),))
    if state is OperationState.FINISHED:
        assert stored.of(AB) == Stints(), "it led to the other direction"


def test_replayed_records_are_found_where_the_copy_has_them() -> None:
    def state(offset: int, mark: RefusedMark | None) -> RefusedState:
        facts = msgspec.structs.replace(FACTS, topic="copy.t", partition=0, offset=offset, target_topic="t")
        return RefusedState(record=facts, mark=mark)

    marks = [
        RefusedMark(did="replayed", at_ms=1, target_topic="t", target_offset=8),
        RefusedMark(did="replayed", at_ms=1, target_topic="t", target_offset=6),
        RefusedMark(did="dropped", at_ms=1),
        None,
    ]
    assert replayed_to([state(number, mark) for number, mark in enumerate(marks)]) == {HERE: 9}


def test_a_switchover_that_has_not_ended_may_run_the_reverse_flow_already() -> None:
    """The reverse flow is started before the last step."""
    stored, row = Stored(), closed_row(HERE, position(5))
    stored.operation(AB, starts=[StoredStart("copy.t", 0, 20)], closed=[])
    stored.operation(BA, state=OperationState.RUNNING, starts=[StoredStart("t", 0, 30)], closed=[row])
    found = Stints(starts=(started(HERE, 30), started(THERE, 20)), closed=({HERE: row}, {}))
    assert stored.of(AB) == found
    assert stored.of(BA) == Stints(starts=(started(THERE, 20),), closed=({},), last={HERE: row}), "it asks itself"
    stored.operation(AB, state=OperationState.ABORTED)
    assert stored.of(AB) == found


def test_the_switchover_that_led_here_says_where_the_reverse_flow_has_its_maps() -> None:
    stored, topics = Stored(), MapTopics(positions_topic="p", partitions=3, connector="c", leaves_out=True)
    stored.operation(AB, starts=[], topics=[msgspec.structs.replace(topics, connector="another")])
    stored.operation(BA, starts=[], topics=[topics])
    assert (stored.of(AB).topics, Stored().of(AB).topics) == (topics, None)
