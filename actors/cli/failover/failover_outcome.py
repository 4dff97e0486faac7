"""The result of a failover and its exit code; the same with a mirror and without one."""

import msgspec

from actors.cli.common import exits
from actors.cli.failover.step_times import StepTime
from actors.model.events import FailoverOutcome
from engine.config.settings import FlowConfig
from engine.core.reports.drain import PartitionDrain, records_left, uncounted, undrained
from engine.core.reports.rpo import TopicRpo
from engine.flow.failback.lent_configs import LentConfigs
from engine.flow.groups.status import GroupStatus
from engine.services.dr.lifting import LiftedFences
from engine.services.quarantine import LeftOutRecords
from policies.naming import IdentityNaming


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover found and left. `source`: why the source does not answer at all, empty if it answers."""

    flow: str
    source: str
    partitions: tuple[PartitionDrain, ...]
    rpo: tuple[TopicRpo, ...]
    standing: GroupStatus
    stopped: bool
    unremembered: bool = False
    """With a mirror: whether "the flow is stopped" could not be written to the target yet."""
    without_mirror: str = ""
    """Why no mirror took part; empty if one did."""
    mirror_seen_ms: int = -1
    """Without a mirror: last sign of life of the last mirror that owned the flow (Unix ms); -1: no mirror ever did."""
    unread: dict[str, str] = {}
    """Partitions of the positions topic that could not be read, and why; their content is missing in `partitions`."""
    undiscovered: bool = False
    """With a mirror: whether it had never discovered what the flow copies, so the positions on the target were used."""
    was_stopped: bool = False
    """With a mirror: whether the flow was stopped before, so the positions on the target were used."""
    event_unsaid: str = ""
    """Without a mirror: why no event reports the failover; empty if one does."""
    tombstones: LentConfigs = LentConfigs()
    """Compacted copies whose `delete.retention.ms` was raised, and those that refused it."""
    fences: LiftedFences = LiftedFences()
    """The fences that earlier operations had left on the target."""
    left_out: LeftOutRecords = LeftOutRecords()
    """What the target lacks because it refused it, and nobody has replayed or dropped it."""
    renamed: bool = False
    """Whether copies have other names than their topics, so that a failback is no way back."""
    steps: tuple[StepTime, ...] = ()
    """How long each step took."""
    mirror_goes_on: bool | None = None
    """Whether its mirror continues with other flows, so that a resume copies again; None: it is not known."""

    @property
    def drained(self) -> bool:
        """Whether everything that the source holds, except heartbeats, is known to be on the target."""
        return not (self.source or self.unread or undrained(self.partitions) or self.left_out.records)

    @property
    def exit_code(self) -> int:
        """The exit code, for scripts."""
        if not self.stopped or self.unremembered:
            return exits.FAILED
        return exits.OK if self.drained and self.standing.equal and not self.fences.failed else exits.NOT_EQUAL

    def as_json(self) -> dict[str, object]:
        """Return the result, with the facts that follow from it."""
        return {**msgspec.to_builtins(self), "drained": self.drained, "equal": self.standing.equal}


def renames(flow: FlowConfig) -> bool:
    """Whether copies of a flow have other names than their topics."""
    return not isinstance(flow.naming, IdentityNaming)


def outcome_of(
    partitions: tuple[PartitionDrain, ...],
    standing: GroupStatus,
    tombstones: LentConfigs,
    *,
    is_whole: bool = True,
    renamed: bool = False,
    left_out: int = 0,
) -> FailoverOutcome:
    """Sum up for the event; unless `is_whole` there may be more partitions, so the number of records is not known.

    `left_out`: records that the target refused; -1: not known.
    """
    return FailoverOutcome(
        records=records_left(partitions) if is_whole else -1,
        groups=standing.groups,
        unequal=len({stand.group for stand in standing.unequal} | standing.failed.keys()),
        partitions=len(partitions),
        undrained=len(undrained(partitions)),
        heartbeats=len(uncounted(partitions)),
        tombstones={one.topic: one.before for one in tombstones.lent},
        renamed=renamed,
        left_out=left_out,
    )
