"""Stores and reads the stints of a flow and its reverse: where each began, and the map that it left behind.

A switchover ends a stint of its flow and begins one of the reverse flow, and so does a failback. It stores where that
one begins, in which topics the map of the ended stint is, and the map of the reverse flow's last stint, because the new
position takes its place. So the operations that are kept, the last one first, have the chain of maps that
`engine/flow/groups/map_chain.py` asks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice, takewhile
from typing import TypeVar

import msgspec

from engine.core.offset_map.map_blocks import read_runs_text, runs_text
from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.core.position.position import Position
from engine.core.refused.entries import RefusedState
from engine.flow.groups.map_chain import ClosedMap, LaneChain, PartedOrder
from engine.flow.operations.reading import OperationCopy
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, OperationState
from policies.model import FlowName, PartitionRow, TopicPartition

START_NOTES, CLOSED_NOTES, TOPICS_NOTES = "positions", "closed-maps", "map-topics"
_T = TypeVar("_T")
_Row = TypeVar("_Row", bound=PartitionRow)


class StoredStart(PartitionRow, frozen=True):
    """A partition of the reverse flow, by its topic on the target, and the next offset to copy; -1: no position.

    `parted`: where the order of records parts before that, if a failback has copied late what only the source had; or
    where the map of the stint before ends, if that is before its copy.
    """

    next: int
    parted: PartedOrder | None = None


class ClosedRow(PartitionRow, frozen=True, kw_only=True):
    """The map of a partition of the reverse flow when its last stint had ended, as its position had it."""

    generation: int
    blocks: int
    source_next: int
    target_next: int
    map_source: int
    map_target: int
    map_first: bool
    runs: str

    def closed(self) -> ClosedMap:
        """Return the map. Raises ValueError for runs that are none."""
        runs = read_runs_text(self.runs)
        return ClosedMap(
            head=MapHead(self.generation, self.blocks, self.source_next, self.target_next, runs),
            start=MapStart(self.map_source, self.map_target, self.map_first),
        )


class MapTopics(msgspec.Struct, frozen=True, kw_only=True):
    """Where a flow keeps its maps, on its target. `leaves_out`: it leaves refused records out, in its quarantine."""

    positions_topic: str
    partitions: int
    connector: str
    leaves_out: bool


def closed_row(lane: TopicPartition, position: Position) -> ClosedRow:
    """Return the map that a position has, as it is stored."""
    head, start = position.map_head, position.map_start
    return ClosedRow(
        topic=lane.topic,
        partition=lane.partition,
        generation=head.generation,
        blocks=head.blocks,
        source_next=head.source_next,
        target_next=head.target_next,
        map_source=start.source,
        map_target=start.target,
        map_first=start.first,
        runs=runs_text(head.runs),
    )


class Stints(msgspec.Struct, frozen=True, kw_only=True):
    """The stints before the present one of a flow, the last one first.

    `starts`: where the present stint of the flow began, by its partitions; where the stint before it began, by those of
    the reverse flow; and so on. `closed`: the maps of the last but one stint, which was the flow's own; of the one
    before that, the reverse flow's; and so on. `last`: those of the last stint, the reverse flow's, if an operation
    that has not finished has taken them from their positions. `topics`: where the reverse flow has its maps.
    """

    starts: tuple[Mapping[TopicPartition, StoredStart], ...] = ()
    closed: tuple[Mapping[TopicPartition, ClosedRow], ...] = ()
    last: Mapping[TopicPartition, ClosedRow] = {}
    topics: MapTopics | None = None

    def chains(
        self, copy_of: Callable[[str], str], replayed: Mapping[TopicPartition, int], there: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LaneChain]:
        """Return the chain of each partition of the flow.

        `copy_of`: the topic's name on the target. `replayed`, `there`: the offsets behind the last records that were
        replayed, by partition of the source and of the target.
        """
        found: dict[TopicPartition, LaneChain] = {}
        for lane in self.starts[0] if self.starts else ():
            back = TopicPartition(copy_of(lane.topic), lane.partition)
            last = self.last.get(back)
            starts = tuple(_of_lane(self.starts, lane, back))
            found[lane] = LaneChain(
                back=back,
                starts=tuple(one.next for one in starts),
                parted={number: one.parted for number, one in enumerate(starts) if one.parted is not None},
                last=None if last is None else last.closed(),
                earlier=tuple(row.closed() for row in _of_lane(self.closed, lane, back)),
                exact_from=replayed.get(lane, 0),
                exact_back_from=there.get(back, 0),
            )
        return found


def _of_lane(rows: Iterable[Mapping[TopicPartition, _T]], lane: TopicPartition, back: TopicPartition) -> Iterator[_T]:
    """Yield what there is of a lane: of the flow and its reverse in turn, up to the first that lacks it."""
    for number, found in zip(count(), rows, strict=False):
        name = back if number % 2 else lane
        if name not in found:
            return
        yield found[name]


def stints_of(copy: OperationCopy, flow: FlowName) -> Stints:
    """Return what a cluster has stored of the stints before the present one of a flow.

    Raises ValueError for notes that raymirror does not write.
    """
    latest = sorted(copy.operations, key=lambda one: (one.began_ms, one.id), reverse=True)
    led = tuple(_led(latest, flow))
    since = takewhile(lambda one: not _begins_stint(one, flow), latest)
    tried = (_rows(copy, one, CLOSED_NOTES, ClosedRow) for one in since if _is_switchover(one, flow))
    return Stints(
        starts=tuple(_rows(copy, one, START_NOTES, StoredStart) for one in led),
        closed=tuple(_rows(copy, one, CLOSED_NOTES, ClosedRow) for one in led),
        last=next(filter(None, tried), {}),
        topics=_topics(copy, led),
    )


def _led(latest: Iterable[DrOperation], flow: FlowName) -> Iterator[DrOperation]:
    """Yield the operations that led to the present stint of a flow, each the reverse of the one after it.

    Nothing counts before a failback that has not stored where the stint began.
    """
    wanted = _back(flow)
    for one in latest:
        if not _begins_stint(one, flow):
            continue
        if one.flow != str(wanted) or START_NOTES not in one.notes:
            return
        yield one
        wanted = _back(wanted)


def _begins_stint(operation: DrOperation, flow: FlowName) -> bool:
    """Whether a flow may have copied since under positions that this operation has set.

    One of this flow that has not ended is the one that asks. One of the reverse flow starts this flow before it has
    ended. A failback that was taken back has copied nothing and set no position: its point of no return comes first.
    """
    if operation.kind == OperationKind.FAILBACK.value:
        starts_it = operation.flow == str(_back(flow)) and START_NOTES in operation.notes
        return starts_it or (operation.has_ended and not _was_taken_back(operation))
    if operation.kind != OperationKind.SWITCHOVER.value:
        return False
    starts_it = not operation.has_ended and _is_switchover(operation, _back(flow))
    return starts_it or operation.state is OperationState.FINISHED


def _was_taken_back(operation: DrOperation) -> bool:
    return operation.state is OperationState.ABORTED and operation.can_return


def _back(flow: FlowName) -> FlowName:
    return FlowName(flow.target, flow.source)


def _is_switchover(operation: DrOperation, flow: FlowName) -> bool:
    return operation.kind == OperationKind.SWITCHOVER.value and operation.flow == str(flow)


def _rows(copy: OperationCopy, operation: DrOperation, name: str, kind: type[_Row]) -> dict[TopicPartition, _Row]:
    rows = (msgspec.json.decode(row, type=kind) for row in copy.notes(operation, name) or ())
    return {row.lane: row for row in rows}


def _topics(copy: OperationCopy, operations: Iterable[DrOperation]) -> MapTopics | None:
    """Return where the flow of the first of these operations has its maps; None if it has not stored that."""
    rows = (row for one in islice(operations, 1) for row in copy.notes(one, TOPICS_NOTES) or ())
    return next((msgspec.json.decode(row, type=MapTopics) for row in rows), None)


def replayed_to(states: Iterable[RefusedState]) -> dict[TopicPartition, int]:
    """Return the offset behind the last record that was replayed, by partition of the copy."""
    found: dict[TopicPartition, int] = {}
    for state in states:
        mark = state.mark
        if mark is not None and mark.target_offset >= 0:
            where = TopicPartition(mark.target_topic, state.record.partition)
            found[where] = max(found.get(where, 0), mark.target_offset + 1)
    return found
