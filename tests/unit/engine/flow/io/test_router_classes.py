"""Classes of priority in the router: connections of their own, changed while copying. Clusters in memory."""

from policies.traffic import BandwidthRule, Priority, PriorityRule, TrafficRules
from tests.unit.engine.flow.stage import Stage, until

ALONE, NORMAL, HIGH = (
    TrafficRules(),
    TrafficRules((), (PriorityRule("other", Priority.HIGH),)),
    TrafficRules((), (PriorityRule("t", Priority.HIGH),)),
)


def connections(stage: Stage) -> tuple[set[int], set[int]]:
    """Return the numbers of the source connections and of the target connections that lanes use."""
    router = stage.copier.router
    routes = [router.routes_of(driver) for driver in stage.copier.drivers.values()]
    sources = {one.inbox.address[1] for one in routes if one.inbox is not None}
    targets = {side.address[1] for one in routes for side in one.outboxes if side is not None}
    return sources, targets


async def test_lanes_move_to_the_connections_of_their_class_while_they_copy() -> None:
    stage = Stage(2)
    for source in stage.sources:
        source.data(20)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.whole(0) and stage.whole(1))
        assert connections(stage) == ({0}, {0, 1})
        for rules, expected in ((NORMAL, ({0}, {0, 1})), (HIGH, ({1}, {2, 3})), (ALONE, ({0}, {0, 1}))):
            stage.copier.limit(rules)
            for source in stage.sources:
                source.data(20)
            stage.a.grow()
            assert connections(stage) == expected
            await until(lambda: stage.whole(0) and stage.whole(1))
        await stage.copier.drain()


async def test_a_limit_of_a_running_copier_is_reported_and_lifted() -> None:
    stage = Stage()
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.copier.limit(TrafficRules((BandwidthRule("t", 1, "t"),)))
        for _ in range(50):
            stage.sources[0].data(20)
        stage.a.grow()
        await until(lambda: stage.copier.progress().bandwidth["t"].held)
        assert "topics t may have 1 bytes per second" in stage.copier.progress().lanes[0].held
        assert not stage.whole()
        stage.copier.limit(ALONE)
        await until(stage.whole)
        found = stage.copier.progress()
        assert (found.lanes[0].held, found.bandwidth) == ("", {})
        await stage.copier.drain()
