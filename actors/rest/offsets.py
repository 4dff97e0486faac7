"""Answers what reads or changes offsets, in MM2's shape (KIP-875, MirrorUtils, MirrorSourceConnector.alterOffsets).

An offset is that of the last copied record: after a change to 0 copying continues with offset 1. A null offset is
that of a partition that begins as a new one.
"""

from collections.abc import Mapping
from typing import Any, Final

from actors.model.messages import AlteredOffset
from actors.model.requests import AlterPositions
from actors.rest.connectors import ConnectorKind, MirrorConnector
from actors.rest.entities import ConnectorOffset, ConnectorOffsets, Said, SourceOffset
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from actors.rest.states import STOPPED, state_of
from actors.rest.view import MirrorView

_MOST_PARTITION: Final = 2**31 - 1
_MOST_OFFSET: Final = 2**63 - 1
_MEMBERS: Final = {"cluster", "partition", "topic"}
_DONE: Final = "The offsets for this connector have been {} successfully"


def offsets(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return how far each partition is copied by its position on the target.

    For heartbeats it is always 0, and raymirror stores none for groups.
    """
    connector = view.connector(call)
    source, target = (connector.config[f"{side}.cluster.alias"] for side in ("source", "target"))
    found = [
        ConnectorOffset(
            {"cluster": source, "partition": one.partition, "topic": one.topic}, SourceOffset(one.source_next - 1)
        )
        for one in view.positions
        if connector.kind is ConnectorKind.SOURCE and one.source_next > 0
    ]
    if connector.kind is ConnectorKind.HEARTBEAT:
        found = [ConnectorOffset({"sourceClusterAlias": source, "targetClusterAlias": target}, SourceOffset(0))]
    return HttpAnswer(body=ConnectorOffsets(tuple(found)))


def alter_offsets(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Set the offsets of some partitions."""
    given = (call.body or {}).get("offsets")
    if not given:
        raise HttpRefusal(400, "Partitions / offsets need to be provided for an alter offsets request")
    connector = _stopped(call, view)
    if connector.kind is not ConnectorKind.SOURCE:
        raise HttpRefusal(
            501,
            f"{connector.name} has no offsets that could be changed: raymirror stores none for groups, and MM2 never"
            " reads them",
        )
    if not isinstance(given, list):
        raise HttpRefusal(400, "offsets is not a list")
    wanted = {(one.topic, one.partition): one for one in (_altered(entry, connector) for entry in given)}
    return _answer("altered", AlterPositions(connector.flow, tuple(wanted.values())))


def reset_offsets(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Remove the offsets of all partitions; those of groups are removed already, because there are none."""
    connector = _stopped(call, view)
    is_source = connector.kind is ConnectorKind.SOURCE
    return _answer("reset", *([AlterPositions(connector.flow, None)] if is_source else []))


def _answer(done: str, *deeds: AlterPositions) -> HttpAnswer:
    return HttpAnswer(body=Said(_DONE.format(done)), deeds=deeds)


def _stopped(call: HttpCall, view: MirrorView) -> MirrorConnector:
    """Return a connector whose offsets may be changed. Raises HttpRefusal."""
    connector = view.connector(call)
    if state_of(view, connector).state != STOPPED:
        raise HttpRefusal(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the"
            f" specified connector by issuing a 'PUT' request to the '/connectors/{connector.name}/stop' endpoint",
        )
    return connector


def _altered(entry: Any, connector: MirrorConnector) -> AlteredOffset:
    """Read one entry. Raises HttpRefusal (400)."""
    where = entry.get("partition") if isinstance(entry, Mapping) else None
    if not isinstance(where, Mapping) or where.keys() != _MEMBERS:
        raise _bad(f"partition {where!r} must have the members cluster, partition and topic, and no other")
    cluster, topic, partition = where["cluster"], where["topic"], where["partition"]
    source = connector.config["source.cluster.alias"]
    if cluster != source:
        raise _bad(f"cluster {cluster!r} must be {source!r}, the source of the flow")
    if not isinstance(topic, str) or not topic:
        raise _bad(f"topic {topic!r} must be a name")
    if not _is_within(partition, _MOST_PARTITION):
        raise _bad(f"partition {partition!r} of topic {topic} must be a number from 0 on")
    return AlteredOffset(topic=topic, partition=partition, offset=_offset(entry.get("offset"), f"{topic}-{partition}"))


def _offset(given: Any, lane: str) -> int | None:
    if given is None:
        return None
    found: Any = given.get("offset") if isinstance(given, Mapping) else None
    if not _is_within(found, _MOST_OFFSET):
        raise _bad(f"offset {given!r} of {lane} must be an object with the member offset, a number from 0 on")
    return int(found)


def _is_within(number: Any, most: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most


def _bad(what: str) -> HttpRefusal:
    return HttpRefusal(400, f"Offsets cannot be changed: {what}")
