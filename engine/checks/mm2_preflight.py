"""Refuses to start a flow that MM2 still copies, or whose positions are stored under another connector name.

It only reads.
"""

from collections import Counter
from collections.abc import Iterable

from engine.base.errors import BrokerUnreachable, ConnectionLost, MirrorError, NotReady
from engine.checks.preflight import CLIENT_ID
from engine.config.settings import ConfigWarning, FlowConfig, MirrorConfig
from engine.flow.ownership.stored_positions import PositionsFound, Writer, stored_positions, writer_of
from engine.flow.surveys.mm2_presence import mm2_presence
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.clients import client_for, opened
from policies.model import FlowName

_PATIENCE_S = 5.0
"""How long to wait for a coordinator. After that the start continues, with a warning that the answer is unknown."""


class Mm2Runs(MirrorError):
    """MM2 runs a flow that is to be taken over: flow, MM2's group, the group's cluster, who wrote the positions."""

    def __init__(self, flow: str, group: str, cluster: str, shown: str) -> None:
        super().__init__(flow, group, cluster, shown)
        self.flow, self.group, self.cluster, self.shown = flow, group, cluster, shown

    def __str__(self) -> str:
        return (
            f"flow {self.flow}: MM2 still runs it: group {self.group!r} on cluster {self.cluster!r} has members, and"
            f" {self.shown}; stop MM2, or wait until its session has timed out (10 s by default)"
        )


class OtherConnector(MirrorError):
    """Positions of a flow are stored under other connector names: flow, topic, the configured name, the names found."""

    def __init__(self, flow: str, topic: str, connector: str, others: tuple[str, ...]) -> None:
        super().__init__(flow, topic, connector, others)
        self.flow, self.topic, self.connector, self.others = flow, topic, connector, others

    def __str__(self) -> str:
        names = ", ".join(repr(one) for one in self.others)
        return (
            f"flow {self.flow}: topic {self.topic} holds its positions under the connector name {names}, none under"
            f" {self.connector!r}; to continue from them, set {self.flow}.raymirror.connector.name = {self.others[0]}"
        )


async def refuse_running_mm2(config: MirrorConfig, flows: Iterable[FlowName]) -> tuple[ConfigWarning, ...]:
    """Look for a running MM2 on some flows of a configuration; return warnings to show before these flows start.

    A flow that raymirror has already taken over only gets a warning. Raises Mm2Runs, OtherConnector, NotReady with
    several of these, BrokerUnreachable, ConnectionLost, KafkaRefusal.
    """
    found: list[ConfigWarning] = []
    refused: list[Mm2Runs | OtherConnector] = []
    for flow in flows:
        try:
            what = await _look(config, config.flow(flow))
        except (Mm2Runs, OtherConnector) as one:
            refused.append(one)
            continue
        if what:
            found.append(ConfigWarning(0, str(flow), what))
    if len(refused) > 1:
        raise NotReady(*map(str, refused))
    if refused:
        raise refused[0]
    return tuple(found)


async def _look(config: MirrorConfig, flow: FlowConfig) -> str:
    client = client_for(config.clusters[flow.name.target], CLIENT_ID, flow.target_admin)
    target = KafkaCluster(client)
    positions, unread = PositionsFound(), ""
    async with opened(client):
        presence = await mm2_presence(target, KafkaGroups(client, patience_s=_PATIENCE_S), flow.mm2_group)
        try:
            positions = await stored_positions(target, flow.positions_topic, flow.position_keys)
        except (BrokerUnreachable, ConnectionLost) as failure:
            unread = f"some of its positions in topic {flow.positions_topic} cannot be read: {failure}"
    if unread and presence.active:
        raise Mm2Runs(str(flow.name), flow.mm2_group, flow.name.target, unread)
    if unread:
        return f"cannot find out whether MM2 copied it under another name: {unread}"
    if others := positions.kept_elsewhere(flow.selection.wants):
        raise OtherConnector(str(flow.name), flow.positions_topic, flow.connector, others)
    if presence.unknown:
        return f"cannot find out whether MM2 still runs it: {presence.unknown}"
    if not presence.active:
        return ""
    writers = Counter(writer_of(one) for lane, one in positions.lanes.items() if flow.selection.wants(lane.topic))
    if writers[Writer.MM2]:
        shown = f"{writers[Writer.MM2]} positions in topic {flow.positions_topic} were written by MM2"
        raise Mm2Runs(str(flow.name), flow.mm2_group, flow.name.target, shown)
    if not writers[Writer.OURS]:
        shown = f"no position in topic {flow.positions_topic} was written by raymirror"
        raise Mm2Runs(str(flow.name), flow.mm2_group, flow.name.target, shown)
    return (
        f"MM2's group {flow.mm2_group!r} on cluster {flow.name.target!r} has members, though raymirror"
        " wrote the positions: if MM2 copies this flow too, records arrive twice"
    )
