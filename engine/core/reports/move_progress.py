"""The state of a migration, its topics and groups, as `raymirror move --list` finds them."""

from collections.abc import Mapping

import msgspec

from policies.dr.move_clients import ClientGap
from policies.dr.topic_moves import GroupPart, TopicProgress


class MigratingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that reads topics of the flow, and where it stands. `at_ms`, `who`: of its move, -1 and "" without one.

    `gone_on`: partitions that it has consumed on the source since. `repeats`: it read some records again.
    """

    group: str
    part: GroupPart
    kind: str
    source_state: str
    target_state: str
    topics: tuple[str, ...]
    gone_on: int = 0
    at_ms: int = -1
    who: str = ""
    repeats: bool = False


class MoveProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a migration. `failed`: groups and brokers that could not be asked, and why.

    `clients`: what applications lack on the target. `addresses`: `bootstrap.servers`, by cluster.
    """

    flow: str
    topics: tuple[TopicProgress, ...]
    groups: tuple[MigratingGroup, ...]
    failed: Mapping[str, str] = {}
    clients: tuple[ClientGap, ...] = ()
    addresses: Mapping[str, str] = {}

    @property
    def went_back(self) -> tuple[str, ...]:
        """The moved groups that consume on the source again."""
        return tuple(one.group for one in self.groups if one.part is GroupPart.BACK)

    @property
    def written_since(self) -> tuple[str, ...]:
        """The topics that were written to on the source after their producers had moved."""
        return tuple(one.topic for one in self.topics if one.written_since > 0)
