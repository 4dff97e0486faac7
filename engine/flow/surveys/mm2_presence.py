"""Detects whether MM2 runs a flow: its Connect workers form a group of their own on the target cluster."""

import msgspec

from engine.base.errors import KafkaRefusal
from engine.flow.ports.ports import Cluster, Groups
from policies.groups import GroupState
from policies.model import TopicPartition

CONNECT = "connect"
_OFFSETS = TopicPartition("__consumer_offsets", 0)


class Mm2Presence(msgspec.Struct, frozen=True):
    """Whether the group has members; `unknown`: why that is not known, empty if it is."""

    active: bool
    unknown: str = ""


async def mm2_presence(cluster: Cluster, groups: Groups, group: str) -> Mm2Presence:
    """Look for members of MM2's group. Raises ConnectionLost, BrokerUnreachable.

    A cluster that never had a consumer is not asked for a coordinator: the request would create its offsets topic.
    """
    if not await cluster.leaders([_OFFSETS]):
        hidden = await cluster.hides(_OFFSETS.topic)
        return Mm2Presence(active=False, unknown=str(hidden) if hidden is not None else "")
    try:
        return await _ask(groups, group)
    except KafkaRefusal as refusal:
        return Mm2Presence(active=False, unknown=str(refusal))


async def _ask(groups: Groups, group: str) -> Mm2Presence:
    states = await groups.states([group])
    if group in states.failed:
        return Mm2Presence(active=False, unknown=states.failed[group])
    if states.found[group] is not GroupState.ACTIVE:
        return Mm2Presence(active=False)
    listed = await groups.list_groups()
    kinds = [one.protocol_type for one in listed.groups if one.group == group]
    if not kinds and listed.unheard:
        return Mm2Presence(active=False, unknown=next(iter(listed.unheard.values())))
    return Mm2Presence(active=CONNECT in kinds)
