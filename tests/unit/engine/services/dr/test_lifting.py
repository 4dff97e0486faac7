"""A failover opens the cluster that an earlier operation has fenced, and nothing else."""

import sys

import pytest

from engine.flow.operations.reading import OperationCopy, read_copy
from engine.services.dr.lifting import lift_fences
from engine.services.dr.other_fences import COMMAND_NOTES, CalledCommand
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import begun, done, finished
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.operations.staged import Clusters, new

OURS = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.DENY)
OPENS = OURS._replace(principal="User:*", operation=Operation.ALL, permission=Permission.ALLOW)
THEIRS = OURS._replace(principal="User:b")
ROWS = {FENCE_NOTES: [FenceRow(OPENS), FenceRow(OURS)]}


async def left(
    *steps: str, source: str = "A", target: str = "B", ends: bool = True, command: bool = False
) -> OperationCopy:
    """Return what B has of a switchover that has begun these steps."""
    clusters = Clusters()
    async with clusters.opened() as store:
        one = await store.claim(new("1"), "ann")
        for step in steps:
            one = await store.save(done(begun(one, step, 1), step, 2, {}))
        one = await store.save(one, ROWS)
        if command:
            one = await store.save(one, {COMMAND_NOTES: [CalledCommand("close")]})
        if ends:
            await store.save(finished(one, 9))
    return await read_copy(clusters.clusters[FlowSide.TARGET], clusters.flows[FlowSide.TARGET])


def fenced(cluster: str = "A") -> FakeSettings:
    settings = FakeSettings(cluster)
    settings.bindings = {OURS, OPENS, THEIRS}
    return settings


@pytest.mark.parametrize("ends", [True, False])
async def test_what_an_operation_left_is_taken_away_and_what_was_there_before_stays(ends: bool) -> None:
    settings = fenced()
    found = await lift_fences(await left("check", "fence", "reverse", ends=ends), "A", settings, "")
    assert (found.bindings, found.failed) == (2, {})
    assert settings.bindings == {THEIRS}
    assert settings.writes[0] == f"removed {OURS}", "the denials first"


async def test_a_fence_that_can_be_taken_back_by_an_abort_stays_and_is_named() -> None:
    settings = fenced()
    found = await lift_fences(await left("check", "fence", ends=False), "A", settings, "")
    assert list(found.failed) == ["switchover 1 of A->B"]
    assert "raymirror dr abort 'A->B'" in found.failed["switchover 1 of A->B"]
    assert settings.bindings == {OURS, OPENS, THEIRS}


async def test_the_fence_of_the_other_cluster_stays() -> None:
    settings = fenced("B")
    found = await lift_fences(await left("check", "fence", "reverse"), "B", settings, "")
    assert (found.bindings, found.failed, len(settings.bindings)) == (0, {}, 3)


async def test_a_binding_that_cannot_be_removed_is_named() -> None:
    settings = fenced()
    settings.refused_bindings = {OURS: "ClusterAuthorizationFailed"}
    found = await lift_fences(await left("check", "fence", "reverse"), "A", settings, "")
    assert "User:a from * cannot be removed: ClusterAuthorizationFailed" in found.failed["switchover 1 of A->B"]


@pytest.mark.local
@pytest.mark.parametrize("code", [0, 3])
async def test_the_operators_command_opens_what_it_has_closed(code: int) -> None:
    copy = await left("check", "fence", "reverse", command=True)
    settings = fenced()
    command = f"{sys.executable} -c 'import sys; sys.exit({code})'"
    found = await lift_fences(copy, "A", settings, command)
    assert bool(found.failed) == bool(code)
    assert (await lift_fences(copy, "A", settings, "")).failed.keys() == {"switchover 1 of A->B"}, "there is no command"
