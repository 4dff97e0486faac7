"""The chain of maps over real copiers in memory: groups that have read nothing since earlier switchovers."""

import pytest

from engine.base.clock import wall_ms
from engine.core.offset_map.offset_map import How
from engine.flow.failback.copying import positions_of
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import GROUPS
from engine.flow.operations.stints import ClosedRow, Stints, StoredStart, closed_row
from engine.flow.surveys.record_epochs import epochs_before
from engine.services.maps import group_maps_of, map_topics_of
from engine.state.state import OPERATION_SCOPE, StateCodec, state_topic
from engine.wire.codecs import NONE
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.dr.group_places import PlaceReason
from policies.dr.operations import OperationState
from policies.model import FlowName, TopicPartition
from tests.unit.engine.config_files import mirror
from tests.unit.engine.flow.failback.played import BACK, FORWARD, Played, TwoWayLog, failback, options
from tests.unit.engine.flow.operations.test_stints import Stored

HERE = TopicPartition("t", 0)
BASE = """clusters = A, B
A.bootstrap.servers = a1:9092
B.bootstrap.servers = b1:9092
replication.policy.class = IdentityReplicationPolicy
offset.storage.partitions = 1
"""
FLOWS = {flow: mirror(f"{flow}.enabled = true\n", base=BASE).flows[0] for flow in (FORWARD, BACK)}


class Switched(Played):
    """Topic `t`, which applications write to on one cluster at a time; `stints`: as the next switchover finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.switchovers = Stored()

    def log_of(self, cluster: str) -> TwoWayLog:
        return (self.here if cluster == "A" else self.there)[0]

    async def stint(self, flow: FlowName, *names: str) -> None:
        """Let applications write to the source of a flow, in two batches, and copy that."""
        self.log_of(flow.source).write(names[0])
        self.log_of(flow.source).write(*names[1:])
        await self.copy(flow=flow)

    async def switch_over(self, flow: FlowName, state: OperationState = OperationState.FINISHED) -> None:
        """End the stint of a flow as `PositionsStep` does: the reverse flow starts where the copy ends."""
        back = FlowName(flow.target, flow.source)
        cluster = self.b if flow == FORWARD else self.a
        start = {HERE: self.log_of(flow.target).end}
        closed = await self.closed(back)
        epochs = dict(await epochs_before(cluster, start))
        await self.move({lane: at - 1 for lane, at in start.items()}, epochs, flow=back)
        began = {lane: StoredStart(*lane, at) for lane, at in start.items()}
        self.stints = Stints(starts=(began, *self.stints.starts), closed=(closed, *self.stints.closed))
        self.switchovers.operation(
            flow,
            state=state,
            starts=list(began.values()),
            closed=list(closed.values()),
            topics=[map_topics_of(FLOWS[flow])],
        )
        self.publish()

    def publish(self) -> None:
        """Write the operations to both clusters, as their driver does."""
        for flow, cluster in ((FORWARD, self.b), (BACK, self.a)):
            topic = state_topic(flow.source)
            rows = StateCodec(flow, topic, OPERATION_SCOPE).encode(self.switchovers.entries)
            records = [Record(number, wall_ms(), key, value) for number, (key, value) in enumerate(rows.items())]
            cluster.targets[TopicPartition(topic, 0)].append(bytes(encode_batch(records, NONE)))

    async def closed(self, flow: FlowName) -> dict[TopicPartition, ClosedRow]:
        """Return the maps that the positions of a flow have."""
        found = await positions_of(self.b if flow == FORWARD else self.a, options(flow))
        return {lane: closed_row(lane, one) for lane, one in found.items()}


@pytest.mark.parametrize("state", [OperationState.FINISHED, OperationState.RUNNING])
async def test_a_group_of_any_earlier_stint_is_placed_exactly(state: OperationState) -> None:
    """By what switchovers have stored, and copiers; the last one may still run when the flow back does."""
    played = Switched()
    flows = [FORWARD, BACK, FORWARD, BACK]
    for number, flow in enumerate(flows):
        await played.stint(flow, *(f"{number}-{record}" for record in range(4)))
        here, there = played.log_of(flow.source), played.log_of(flow.target)
        clusters = {"A": played.a, "B": played.b}
        source, target = clusters[flow.source], clusters[flow.target]
        own = played.maps(flow.source, target)
        maps = group_maps_of(FLOWS[flow], own, source, target)
        await maps.follow([HERE])
        assert here.names() == there.names() == [f"{one}-{record}" for one in range(number + 1) for record in range(4)]
        for offset in range(here.end + 1):
            answer = maps.translate(HERE, offset)
            assert answer.exact, (number, offset, answer)
            assert here.names(offset) == there.names(answer.offset), (number, offset, answer)
        if number:
            assert own.translate(HERE, 0).how is How.BEFORE, "alone it does not know"
        head = maps.head(HERE)
        assert head is not None
        for offset in range(head.target_next + 1):
            back = maps.source_of(HERE, offset)
            assert back.exact, (number, offset, back)
            assert there.names(offset) == here.names(back.offset), (number, offset, back)
        await played.switch_over(flow, state if number == len(flows) - 2 else OperationState.FINISHED)


async def test_a_group_of_an_earlier_stint_is_placed_exactly_by_a_failback() -> None:
    """B -> A, switched over; A -> B, failed over; the group has read nothing since the first of them."""
    played = Switched()
    await played.stint(FORWARD, "first-0", "first-1")
    await played.switch_over(FORWARD)
    await played.stint(BACK, "back-0", "back-1", "back-2")
    await played.switch_over(BACK)
    await played.stint(FORWARD, "p0", "p1", "p2")
    played.guard.failed_over = wall_ms() + 1
    played.here[0].write("d0", "d1")
    played.there[0].write("n0", "n1")
    end = played.there[0].behind("p2")
    groups = {f"g{offset}": offset for offset in range(end)}
    for group, offset in groups.items():
        played.groups["B"].put(group, {HERE: offset})
    unread = {group: played.reading("B", group) for group in groups}
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback())
        rows = store.notes(operation, GROUPS, MovedPartition) or ()
    assert {row.group: row.reason for row in rows} == dict.fromkeys(groups, PlaceReason.EXACT)
    for group, names in unread.items():
        left = [name for name in names if name not in ("n0", "n1")]
        assert played.reading("A", group) == [*left, "d0", "d1", "n0", "n1"], group
