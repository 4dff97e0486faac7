"""Every request of a failback belongs to a row of the rights of `raymirror dr failback`, by cluster and resource."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pytest

from engine.flow.failback.lent_configs import keep_tombstones
from engine.flow.failback.world import FailbackWorld
from engine.flow.operations.fencing import AclFence, FenceChoice
from policies.dr.failback import FailbackChoice
from policies.dr.fence import EveryoneRule
from policies.dr.operations import OperationState
from policies.grants.feature_use import GrantFeature
from policies.grants.features import USES
from policies.grants.resources import GrantSide
from policies.grants.rights import ResourceKind
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.unit.engine.flow.failback.played import Played, failback

_TOPIC, _GROUP, _CLUSTER, _ID = (
    ResourceKind.TOPIC,
    ResourceKind.GROUP,
    ResourceKind.CLUSTER,
    ResourceKind.TRANSACTIONAL_ID,
)
SETTINGS = {
    "topics": ("Metadata", _TOPIC),
    "configs": ("DescribeConfigs", _TOPIC),
    "alter": ("IncrementalAlterConfigs", _TOPIC),
    "create": ("CreateTopics", _TOPIC),
    "grow": ("CreatePartitions", _TOPIC),
    "delete": ("DeleteTopics", _TOPIC),
    "acls": ("DescribeAcls", _CLUSTER),
    "add_acls": ("CreateAcls", _CLUSTER),
    "remove_acls": ("DeleteAcls", _CLUSTER),
}
GROUPS = {
    "list_groups": ("ListGroups", _GROUP),
    "states": ("DescribeGroups", _GROUP),
    "offsets": ("OffsetFetch", _GROUP),
    "commit": ("OffsetCommit", _GROUP),
}
CLUSTER = {
    "leaders": ("Metadata", _TOPIC),
    "offsets": ("ListOffsets", _TOPIC),
    "stable_ends": ("ListOffsets", _TOPIC),
    "epoch_ends": ("OffsetForLeaderEpoch", _TOPIC),
    "producers": ("DescribeProducers", _TOPIC),
    "acquire": ("InitProducerId", _ID),
    "commit": ("EndTxn", _ID),
    "read_headers": ("Fetch", _TOPIC),
    "read_content": ("Fetch", _TOPIC),
    "source_broker": ("Fetch", _TOPIC),
    "target_broker": ("Produce", _TOPIC),
}
"""What the methods of the ports ask a broker."""
Sent = tuple[GrantSide, str, ResourceKind]


class Recorded:
    """A port that notes what it asks a broker."""

    def __init__(
        self, port: object, side: GrantSide, asks: dict[str, tuple[str, ResourceKind]], sent: set[Sent]
    ) -> None:
        self._port, self._side, self._asks, self._sent = port, side, asks, sent

    def __getattr__(self, name: str) -> Any:
        if name in self._asks:
            self._sent.add((self._side, *self._asks[name]))
        return getattr(self._port, name)


class RecordedPlay(Played):
    """Clusters whose ports note what they ask."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: set[Sent] = set()
        allowed = Binding(Resource.TOPIC, "t", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.ALLOW)
        self.settings["A"].bindings = {allowed}
        self._ports = [
            {
                "cluster": self._noted(cluster, side, CLUSTER),
                "settings": self._noted(self.settings[cluster.name], side, SETTINGS),
                "groups": self._noted(self.groups[cluster.name], side, GROUPS),
            }
            for cluster, side in ((self.a, GrantSide.SOURCE), (self.b, GrantSide.TARGET))
        ]

    def _noted(self, port: object, side: GrantSide, asks: dict[str, tuple[str, ResourceKind]]) -> Any:
        return Recorded(port, side, asks, self.sent)

    async def hold_tombstones(self, topics: Collection[str]) -> Mapping[str, str]:
        return (await keep_tombstones(self._ports[1]["settings"], self.loans, topics, 30 * 86_400_000)).failed

    def world(self) -> FailbackWorld:
        plain, (here, there) = super().world(), self._ports
        fence = AclFence(here["settings"], FenceChoice(own="User:mirror", everyone=EveryoneRule.NO))
        return msgspec.structs.replace(
            plain,
            source=msgspec.structs.replace(plain.source, **here),
            target=msgspec.structs.replace(plain.target, **there),
            fence=fence,
        )


def granted(*features: GrantFeature) -> set[Sent]:
    return {(use.side, request, use.group.kind) for use in USES if use.feature in features for request in use.requests}


@pytest.mark.parametrize(
    ("choice", "features"),
    [
        (FailbackChoice.KEEP, {GrantFeature.DR_FAILBACK}),
        (FailbackChoice.APPEND, {GrantFeature.DR_FAILBACK, GrantFeature.MAKE_ANEW}),
        (FailbackChoice.DISCARD, {GrantFeature.DR_FAILBACK, GrantFeature.MAKE_ANEW}),
    ],
)
async def test_a_failback_asks_for_no_more_than_its_rows(choice: FailbackChoice, features: set[GrantFeature]) -> None:
    played = RecordedPlay()
    for settings in played.settings.values():
        settings.put("t", 1, cleanup_policy="delete", retention_ms="5000")
    played.here[0].write("a", "b")
    await played.copy()
    played.here[0].write("late")
    played.there[0].write("new")
    played.groups["B"].put("g", {})
    played.choice = choice
    async with played.failing_back() as driver:
        operation = failback(choice=choice.value, **{"make-anew": True})
        assert (await driver.start(operation)).state is OperationState.FINISHED
    assert played.sent - granted(*features) == set()
    assert (GrantSide.SOURCE, "CreateAcls", _CLUSTER) in played.sent
    assert ((GrantSide.SOURCE, "DeleteTopics", _TOPIC) in played.sent) == (GrantFeature.MAKE_ANEW in features)
    assert (GrantSide.SOURCE, "IncrementalAlterConfigs", _TOPIC) in played.sent


async def test_a_compacted_topic_asks_for_no_more() -> None:
    played = RecordedPlay()
    for settings in played.settings.values():
        settings.put("t", 1, cleanup_policy="compact", retention_ms="5000", delete_retention_ms="0")
    played.here[0].put(a="1", b="1")
    await played.copy()
    played.there[0].put(a="2", b=None)
    async with played.failing_back() as driver:
        await driver.start(failback())
    assert played.sent - granted(GrantFeature.DR_FAILBACK) == set()
    assert (GrantSide.TARGET, "IncrementalAlterConfigs", _TOPIC) in played.sent
