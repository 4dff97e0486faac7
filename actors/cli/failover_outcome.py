"""What a failover found and left, as it is told: the same with a mirror and without one."""

import msgspec

from actors.cli import exits
from actors.events import Outcome
from engine.core.drain import PartitionDrain, records_left, uncounted, undrained
from engine.core.rpo import TopicRpo
from engine.flow.standing import Standing


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover found and left; `source`: why the source tells nothing at all."""

    flow: str
    source: str
    partitions: tuple[PartitionDrain, ...]
    rpo: tuple[TopicRpo, ...]
    standing: Standing
    stopped: bool
    unremembered: bool = False
    """With a mirror: whether the target could not be told yet that the flow is stopped."""
    without_mirror: str = ""
    """Why no mirror took part; empty where one did."""
    mirror_seen_ms: int = -1
    """Without a mirror: when the last one that had the flow said so (Unix time); -1: nobody ever did."""
    unread: dict[str, str] = {}
    """Partitions of the positions topic that could not be read, and why: what they hold is not in `partitions`."""
    undiscovered: bool = False
    """With a mirror: whether it had never found what the flow copies, so positions on the target are judged by."""
    event_unsaid: str = ""
    """Without a mirror: why no event tells of it; empty where one does."""
    mirror_goes_on: bool | None = None
    """Whether its mirror goes on with other flows, so that a resume copies again; None: it did not say so."""

    @property
    def drained(self) -> bool:
        """Whether all that the source holds, but heartbeats, is on the target: known of every other partition."""
        return not self.source and not self.unread and not undrained(self.partitions)

    @property
    def exit_code(self) -> int:
        """What a script is told."""
        if not self.stopped or self.unremembered:
            return exits.FAILED
        return exits.OK if self.drained and self.standing.equal else exits.NOT_EQUAL

    def as_json(self) -> dict[str, object]:
        """Return it with what follows from it."""
        return {**msgspec.to_builtins(self), "drained": self.drained, "equal": self.standing.equal}


def outcome_of(partitions: tuple[PartitionDrain, ...], standing: Standing, *, is_whole: bool = True) -> Outcome:
    """Sum up for the event; unless `is_whole` there may be more partitions, so nobody knows how many records."""
    return Outcome(
        records=records_left(partitions) if is_whole else -1,
        groups=standing.groups,
        unequal=len({stand.group for stand in standing.unequal} | standing.failed.keys()),
        partitions=len(partitions),
        undrained=len(undrained(partitions)),
        heartbeats=len(uncounted(partitions)),
    )
