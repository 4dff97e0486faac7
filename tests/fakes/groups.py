"""The consumer groups of a cluster in memory, behind the Groups port."""

from collections.abc import Callable, Mapping, Sequence

from engine.base.errors import ConnectionLost, GroupActive
from engine.flow.ports.ports import Answers, GroupListing, Listed, Offsets, Stored
from policies.groups import GroupState
from policies.model import TopicPartition

AWAY = "broker 3: cannot connect: down"


class FakeGroups:
    """Groups; a test breaks them by setting what is public. `before` is called with every question and may raise."""

    def __init__(self, name: str, partitions: set[TopicPartition] | None = None) -> None:
        self.name = name
        self.stored: dict[str, Offsets] = {}
        self.members: set[str] = set()
        self.shared: dict[str, Offsets] = {}
        """Where share groups start."""
        self.listed: dict[str, GroupListing] = {}
        """How groups are listed, where that is not as a classic consumer group."""
        self.partitions = partitions
        """Where commits are taken; None: everywhere."""
        self.failing: dict[str, str] = {}
        self.unstable: set[str] = set()
        self.away: set[str] = set()
        """Groups of broker 3, which cannot be reached."""
        self.hidden: set[str] = set()
        """Groups that this mirror may not describe: not listed, and refused by name."""
        self.retention: float | None = 7 * 86_400.0
        self.commits: list[tuple[str, dict[TopicPartition, Stored]]] = []
        self.before: Callable[[str], object] = lambda _asked: None

    def put(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit as a consumer of the group would."""
        self.stored.setdefault(group, {}).update({where: (offset, "") for where, offset in offsets.items()})

    async def list_groups(self) -> Listed:
        self.before("list")
        names = sorted((self.stored.keys() | self.members | self.listed.keys()) - self.away - self.hidden)
        listed = [self.listed.get(name, GroupListing(name, "consumer", "classic")) for name in names]
        return Listed(listed, {3: AWAY} if self.away else {})

    def _answers(self, groups: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        failed = {group: self.failing[group] for group in groups if group in self.failing}
        failed |= {group: "GroupAuthorizationFailed (30)" for group in groups if group in self.hidden}
        failed |= {group: AWAY for group in groups if group in self.away}
        return [group for group in groups if group not in failed], failed

    async def states(self, groups: Sequence[str]) -> Answers[GroupState]:
        self.before("states")
        asked, failed = self._answers(groups)
        return Answers(
            {group: self._state(group) for group in asked}, failed, dict.fromkeys(self.away & set(groups), 3)
        )

    def _state(self, group: str) -> GroupState:
        if group in self.members:
            return GroupState.ACTIVE
        return GroupState.INACTIVE if group in self.stored else GroupState.ABSENT

    async def offsets(self, groups: Sequence[str], *, stable: bool = False) -> Answers[Offsets]:
        self.before("offsets")
        asked, failed = self._answers(groups)
        if stable:
            failed |= {group: "UnstableOffsetCommit" for group in asked if group in self.unstable}
        found = {group: dict(self.stored.get(group, {})) for group in asked if group not in failed}
        return Answers(found, failed, dict.fromkeys(self.away & set(groups), 3))

    async def share_offsets(self, groups: Sequence[str]) -> Answers[Offsets]:
        return Answers({group: dict(self.shared.get(group, {})) for group in groups}, {})

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, str]:
        self.before("commit")
        if group in self.away:
            raise ConnectionLost(AWAY)
        if group in self.members:
            raise GroupActive(group, self.name)
        taken = {at: one for at, one in offsets.items() if self.partitions is None or at in self.partitions}
        self.commits.append((group, taken))
        self.stored.setdefault(group, {}).update(taken)
        return {at: "UnknownTopicOrPartition (3)" for at in offsets if at not in taken}

    async def retention_s(self) -> float | None:
        return self.retention
