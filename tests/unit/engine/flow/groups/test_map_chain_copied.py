"""The chain of maps over real copiers in memory: groups that have read nothing since earlier switchovers."""

from engine.base.clock import wall_ms
from engine.core.offset_map.offset_map import How
from engine.flow.failback.copying import positions_of
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import GROUPS
from engine.flow.groups.map_chain import ChainedMaps, KnownStints
from engine.flow.operations.stints import ClosedRow, Stints, closed_row
from engine.flow.surveys.record_epochs import epochs_before
from policies.dr.group_places import PlaceReason
from policies.model import FlowName, TopicPartition
from tests.unit.engine.flow.failback.played import BACK, FORWARD, Played, TwoWayLog, failback, options

HERE = TopicPartition("t", 0)


class Switched(Played):
    """Topic `t`, which applications write to on one cluster at a time; `stints`: as the next switchover finds them."""

    def log_of(self, cluster: str) -> TwoWayLog:
        return (self.here if cluster == "A" else self.there)[0]

    async def stint(self, flow: FlowName, *names: str) -> None:
        """Let applications write to the source of a flow, in two batches, and copy that."""
        self.log_of(flow.source).write(names[0])
        self.log_of(flow.source).write(*names[1:])
        await self.copy(flow=flow)

    async def switch_over(self, flow: FlowName) -> None:
        """End the stint of a flow as `PositionsStep` does: the reverse flow starts where the copy ends."""
        back = FlowName(flow.target, flow.source)
        cluster = self.b if flow == FORWARD else self.a
        start = {HERE: self.log_of(flow.target).end}
        closed = await self.closed(back)
        epochs = dict(await epochs_before(cluster, start))
        await self.move({lane: at - 1 for lane, at in start.items()}, epochs, flow=back)
        self.stints = Stints(starts=(start, *self.stints.starts), closed=(closed, *self.stints.closed))

    async def closed(self, flow: FlowName) -> dict[TopicPartition, ClosedRow]:
        """Return the maps that the positions of a flow have."""
        found = await positions_of(self.b if flow == FORWARD else self.a, options(flow))
        return {lane: closed_row(lane, one) for lane, one in found.items()}


async def test_a_group_of_any_earlier_stint_is_placed_exactly_by_a_switchover() -> None:
    played = Switched()
    flows = [FORWARD, BACK, FORWARD, BACK]
    for number, flow in enumerate(flows):
        await played.stint(flow, *(f"{number}-{record}" for record in range(4)))
        here, there = played.log_of(flow.source), played.log_of(flow.target)
        clusters = {"A": played.a, "B": played.b}
        own = played.maps(flow.source, clusters[flow.target])
        closed = played.maps(flow.target, clusters[flow.source])
        maps = ChainedMaps(own, KnownStints(closed, played.stints.chains(str, {}, {})))
        await maps.follow([HERE])
        assert here.names() == there.names() == [f"{one}-{record}" for one in range(number + 1) for record in range(4)]
        for offset in range(here.end + 1):
            answer = maps.translate(HERE, offset)
            assert answer.exact, (number, offset, answer)
            assert here.names(offset) == there.names(answer.offset), (number, offset, answer)
        if number:
            assert own.translate(HERE, 0).how is How.BEFORE, "alone it does not know"
        await played.switch_over(flow)


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
