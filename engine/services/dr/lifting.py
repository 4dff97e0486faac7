"""Takes away the fences that earlier operations have left on the cluster that a failover moves applications to.

A switchover or a failback leaves its fence on the old source. If the other cluster dies then, applications move there
again, and no step of an operation lifts the fence first, because that needs both clusters.
"""

import msgspec

from engine.base.errors import MirrorError
from engine.base.parts import parts
from engine.flow.operations.reading import OperationCopy
from engine.flow.ports.settings_port import BINDINGS_AT_ONCE, Settings
from engine.services.dr.other_fences import COMMAND_NOTES, CommandFence
from policies.dr.fence import FENCE_NOTES, FenceRow, taken_back
from policies.dr.operation_commands import takes_back
from policies.dr.operations import DrOperation, has_standing_fence
from policies.sync.acl_sync import Resource


class LiftedFences(msgspec.Struct, frozen=True, kw_only=True):
    """How many bindings were removed, and why what stands could not be removed, by operation."""

    bindings: int = 0
    failed: dict[str, str] = {}


async def lift_fences(copy: OperationCopy, cluster: str, settings: Settings, command: str) -> LiftedFences:
    """Lift what stands on a cluster (its alias); a failure is in the result.

    The fence of an operation that can still be taken back stays: its abort needs only this cluster. `command`: of
    `raymirror.dr.fence.command`.
    """
    lifted, failed = 0, dict[str, str]()
    for one in copy.operations:
        if one.source != cluster or not has_standing_fence(one):
            continue
        name = f"{one.kind} {one.id} of {one.flow}"
        if not one.has_ended and one.can_return:
            failed[name] = f"it has not ended; take it back: {takes_back(one.kind, one.flow)}"
            continue
        try:
            lifted += await _lift(copy, one, settings, command)
        except MirrorError as failure:
            failed[name] = str(failure)
    return LiftedFences(bindings=lifted, failed=failed)


async def _lift(copy: OperationCopy, operation: DrOperation, settings: Settings, command: str) -> int:
    if copy.notes(operation, COMMAND_NOTES):
        await CommandFence(command, operation.flow).lift(operation.id)
    rows = copy.notes(operation, FENCE_NOTES) or []
    made = [msgspec.json.decode(row, type=FenceRow).binding for row in rows]
    if not made:
        return 0
    there = await settings.acls(Resource.TOPIC)
    existing = [one for one in taken_back(made) if one in there]
    for part in parts(existing, BINDINGS_AT_ONCE):
        for binding, why in (await settings.remove_acls(part)).items():
            raise FenceStands(str(binding), why)
    return len(existing)


class FenceStands(MirrorError):
    """A binding of a fence could not be removed: which, why."""

    def __init__(self, binding: str, why: str) -> None:
        super().__init__(binding, why)
        self.binding, self.why = binding, why

    def __str__(self) -> str:
        return f"{self.binding} cannot be removed: {self.why}"
