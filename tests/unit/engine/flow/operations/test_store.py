"""The operations in two state topics: copies that differ, notes, the history, and the mirror's own entries."""

import asyncio

import msgspec
import pytest

from engine.flow.operations.errors import OperationHeld, OperationTaken
from engine.flow.operations.reading import read_copy, standing_fences
from engine.flow.operations.store import NotesLost
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs.state_log import StateLog
from engine.state.state import DESIRED, DesiredState, StateHolder, state_topic
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, aborting, begun, finished, undoing, undone
from policies.model import FlowName
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.unit.engine.flow.operations.staged import Clusters, new


class Row(msgspec.Struct, frozen=True):
    """A row of notes."""

    number: int
    text: str = ""


async def copies(clusters: Clusters) -> list[tuple[DrOperation, ...]]:
    return [(await read_copy(clusters.clusters[side], clusters.flows[side])).operations for side in FlowSide]


async def test_both_clusters_have_what_was_saved() -> None:
    clusters = Clusters()
    async with clusters.opened() as store:
        saved = await store.save(begun(await store.claim(new(), "ann"), "check", 5), {"rows": [Row(1), Row(2)]})
    assert await copies(clusters) == [(saved,), (saved,)]
    copy = await read_copy(clusters.clusters[FlowSide.SOURCE], clusters.flows[FlowSide.SOURCE])
    assert copy.driver is not None
    assert copy.driver.released
    assert [msgspec.json.decode(row, type=Row) for row in copy.notes(saved, "rows") or ()] == [Row(1), Row(2)]
    assert copy.notes(saved, "others") is None


async def test_a_cluster_without_a_state_topic_has_no_operations() -> None:
    clusters = Clusters()
    assert (await read_copy(clusters.clusters[FlowSide.SOURCE], FlowName("X", "A"))).operations == ()


async def test_notes_replace_those_of_the_same_name() -> None:
    clusters = Clusters()
    async with clusters.opened() as store:
        operation = await store.claim(new(), "ann")
        many = [Row(at, "x" * 1000) for at in range(1000)]
        operation = await store.save(operation, {"rows": many, "others": []})
        assert operation.notes["rows"].parts > 5
        assert store.notes(operation, "rows", Row) == tuple(many)
        operation = await store.save(operation, {"rows": [Row(7)]})
        assert store.notes(operation, "rows", Row) == (Row(7),)
        assert store.notes(operation, "others", Row) == ()
        assert store.notes(operation, "third", Row) is None
    async with clusters.opened() as store:
        operation = await store.claim(operation, "bob")
        assert store.notes(operation, "rows", Row) == (Row(7),)
    copy = await read_copy(clusters.clusters[FlowSide.TARGET], clusters.flows[FlowSide.TARGET])
    assert sum(key.kind == "operation-notes" for key in copy.entries) <= 2


async def test_the_copy_of_a_cluster_that_was_dead_is_brought_level() -> None:
    clusters = Clusters()
    async with clusters.opened() as store:
        operation = await store.save(await store.claim(new(), "ann"), {"rows": [Row(1)]})
    async with clusters.opened(away=[FlowSide.TARGET]) as store:
        operation = await store.save(await store.claim(aborting(operation, ""), "bob"), {"rows": [Row(2)]})
    behind = await copies(clusters)
    assert behind[0] != behind[1]
    async with clusters.opened() as store:
        assert store.operations == (operation,)
    assert await copies(clusters) == [(operation,), (operation,)]
    async with clusters.opened(away=[FlowSide.SOURCE]) as store:
        assert store.notes(operation, "rows", Row) == (Row(2),)


async def test_notes_that_no_cluster_has_are_named() -> None:
    clusters = Clusters()
    async with clusters.opened() as store:
        operation = await store.save(await store.claim(new(), "ann"), {"rows": [Row(1)]})
        lost = msgspec.structs.replace(operation, id="2")
        with pytest.raises(NotesLost, match="notes 'rows' of operation 2"):
            store.notes(lost, "rows", Row)


async def test_the_history_is_bounded() -> None:
    clusters = Clusters()
    async with clusters.opened() as store:
        for at in range(5):
            operation = await store.save(await store.claim(new(str(at), began_ms=at), "ann"), {"rows": [Row(at)]})
            await store.save(finished(operation, at))
        await store.prune(keep=5)
        await store.prune(keep=2)
        assert [one.id for one in store.operations] == ["3", "4"]
    copy = await read_copy(clusters.clusters[FlowSide.SOURCE], clusters.flows[FlowSide.SOURCE])
    assert [one.id for one in copy.operations] == ["3", "4"]
    assert sum(key.kind == "operation-notes" for key in copy.entries) == 2


async def test_a_driver_that_is_alive_keeps_others_out() -> None:
    clusters = Clusters()
    store = clusters.store("first")
    await store.open()
    running = asyncio.get_running_loop().create_task(store.run())
    with pytest.raises(OperationHeld, match="on first"):
        await clusters.store("second").open()
    running.cancel()
    await store.close()
    await clusters.store("second").open()


async def test_a_driver_that_is_replaced_learns_it_when_it_renews() -> None:
    clusters = Clusters()
    store = clusters.store("first")
    await store.open()
    await clusters.store("second").open()  # it waits until the first one is silent for long enough
    with pytest.raises(OperationTaken, match="on second"):
        await store.run()


async def test_the_mirror_and_the_driver_leave_each_other_alone() -> None:
    clusters = Clusters()
    holder = StateHolder(deployment_id="m", instance_id="m", mirror="m", version="1", where="w")
    options = StateOptions(flow=FlowName("A", "B"), topic=state_topic("A"))
    mirror = StateLog(options, clusters.clusters[FlowSide.TARGET], holder)
    await mirror.open()
    async with clusters.opened() as store:
        await store.claim(new(), "ann")
        await mirror.put({DESIRED: DesiredState(state="paused")})
        await mirror.renew()
        assert [key.kind for key in mirror.load()] == ["deployment", "desired"]
    assert all(len(copy) == 1 for copy in await copies(clusters))
    await mirror.close()


async def test_a_fence_stands_from_before_it_is_made_until_it_is_taken_back() -> None:
    clusters = Clusters()
    binding = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.DENY)

    async def standing() -> set[Binding]:
        copy = await read_copy(clusters.clusters[FlowSide.TARGET], clusters.flows[FlowSide.TARGET])
        assert standing_fences(copy, "B") == set(), "an equal binding of the other cluster is no fence's"
        return standing_fences(copy, "A")

    async with clusters.opened() as store:
        operation = await store.claim(new(), "ann")
        assert await standing() == set()
        operation = await store.save(begun(operation, "fence", 1), {FENCE_NOTES: [FenceRow(binding)]})
        assert await standing() == {binding}
        operation = await store.save(undoing(aborting(operation, ""), "fence"))
        assert await standing() == {binding}
        await store.save(undone(operation, "fence", 2, {}))
        assert await standing() == set()
