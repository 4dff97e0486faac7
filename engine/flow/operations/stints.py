"""Stores and reads the stints of a flow and its reverse: where each began, and the map that it left behind.

A switchover ends a stint of its flow and begins one of the reverse flow. It stores where that one begins, and the map
of the reverse flow's last stint, because the new position takes its place. So the operations that are kept, the last
one first, have the chain of maps that `engine/flow/groups/map_chain.py` asks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, takewhile
from typing import TypeVar

import msgspec

from engine.core.offset_map.map_blocks import read_runs_text, runs_text
from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.core.position.position import Position
from engine.core.refused.entries import RefusedState
from engine.flow.groups.map_chain import ClosedMap, LaneChain
from engine.flow.operations.reading import OperationCopy
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, OperationState
from policies.model import FlowName, PartitionRow, TopicPartition

START_NOTES, CLOSED_NOTES = "positions", "closed-maps"
_T = TypeVar("_T")
_Row = TypeVar("_Row", bound=PartitionRow)


class StoredStart(PartitionRow, frozen=True):
    """A partition of the reverse flow, by its topic on the target, and the next offset to copy; -1: no position."""

    next: int


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
    that has not finished has taken them from their positions.
    """

    starts: tuple[Mapping[TopicPartition, int], ...] = ()
    closed: tuple[Mapping[TopicPartition, ClosedRow], ...] = ()
    last: Mapping[TopicPartition, ClosedRow] = {}

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
            found[lane] = LaneChain(
                back=back,
                starts=tuple(_of_lane(self.starts, lane, back)),
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
    """Return what a cluster has stored of the stints before the present one of a flow."""
    latest = sorted(copy.operations, key=lambda one: (one.began_ms, one.id), reverse=True)
    led = tuple(_led(latest, flow))
    since = takewhile(lambda one: not _begins_stint(one), latest)
    tried = (_rows(copy, one, CLOSED_NOTES, ClosedRow) for one in since if _is_switchover(one, flow))
    return Stints(
        starts=tuple(
            {row.lane: row.next for row in _rows(copy, one, START_NOTES, StoredStart).values()} for one in led
        ),
        closed=tuple(_rows(copy, one, CLOSED_NOTES, ClosedRow) for one in led),
        last=next(filter(None, tried), {}),
    )


def _led(latest: Iterable[DrOperation], flow: FlowName) -> Iterator[DrOperation]:
    """Yield the switchovers that led to the present stint of a flow, each the reverse of the one after it.

    A failback sets positions, too, and copies what the clusters have in another order: nothing before it counts.
    """
    wanted = FlowName(flow.target, flow.source)
    for one in filter(_begins_stint, latest):
        if not _is_switchover(one, wanted):
            return
        yield one
        wanted = FlowName(wanted.target, wanted.source)


def _begins_stint(operation: DrOperation) -> bool:
    """Whether a flow may have copied since under positions that this operation has set.

    A failback that has not ended is the one that asks.
    """
    if operation.kind == OperationKind.FAILBACK.value:
        return operation.has_ended
    return operation.kind == OperationKind.SWITCHOVER.value and operation.state is OperationState.FINISHED


def _is_switchover(operation: DrOperation, flow: FlowName) -> bool:
    return operation.kind == OperationKind.SWITCHOVER.value and operation.flow == str(flow)


def _rows(copy: OperationCopy, operation: DrOperation, name: str, kind: type[_Row]) -> dict[TopicPartition, _Row]:
    rows = (msgspec.json.decode(row, type=kind) for row in copy.notes(operation, name) or ())
    return {row.lane: row for row in rows}


def replayed_to(states: Iterable[RefusedState]) -> dict[TopicPartition, int]:
    """Return the offset behind the last record that was replayed, by partition of the copy."""
    found: dict[TopicPartition, int] = {}
    for state in states:
        mark = state.mark
        if mark is not None and mark.target_offset >= 0:
            where = TopicPartition(mark.target_topic, state.record.partition)
            found[where] = max(found.get(where, 0), mark.target_offset + 1)
    return found
