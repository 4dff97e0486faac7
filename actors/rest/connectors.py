"""The connectors that a mirror shows: each flow as up to three of MM2's classes, by the names that Strimzi gives them.

`A->B.MirrorSourceConnector` copies, `A->B.MirrorCheckpointConnector` mirrors consumer groups, and
`A->B.MirrorHeartbeatConnector` writes heartbeats. A function that is switched off has no connector.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from engine.config.http.connector_settings import connector_settings
from engine.config.settings import FlowConfig, MirrorConfig
from policies.naming import PACKAGE

KAFKA_VERSION: Final = "4.3.1"
"""The release of Kafka whose interface this is."""


class ConnectorKind(enum.StrEnum):
    """MM2's classes of connectors, by their short names."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"

    @property
    def class_name(self) -> str:
        """The full name of the Java class."""
        return f"{PACKAGE}{self.value}"


class MirrorConnector(msgspec.Struct, frozen=True, kw_only=True):
    """One connector: its flow and class, its settings, and the topics that it writes besides copies."""

    flow: str
    kind: ConnectorKind
    config: dict[str, str]
    topics: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.flow}.{self.kind}"


def connectors_of(config: MirrorConfig, plain: Mapping[str, str]) -> dict[str, MirrorConnector]:
    """Return the connectors of a configuration by name; `plain`: the settings of its file, without passwords.

    Raises ConfigError.
    """
    found = [one for flow in config.flows for one in _of_flow(flow, connector_settings(plain, flow.name))]
    return {one.name: one for one in found}


def _of_flow(flow: FlowConfig, settings: Mapping[str, str]) -> list[MirrorConnector]:
    beats = tuple(one.topic for one in flow.heartbeats if one.pair == flow.name)
    checkpoints = (flow.naming.checkpoints_topic(flow.name.source),) if flow.groups.checkpoints else ()
    present: dict[ConnectorKind, tuple[str, ...]] = {ConnectorKind.SOURCE: ()}
    if flow.groups.checkpoints or flow.groups.commits:
        present[ConnectorKind.CHECKPOINT] = checkpoints
    if beats:
        present[ConnectorKind.HEARTBEAT] = beats
    return [
        MirrorConnector(
            flow=str(flow.name),
            kind=kind,
            config={
                **settings,
                "name": f"{flow.name}.{kind}",
                "connector.class": kind.class_name,
            },
            topics=topics,
        )
        for kind, topics in present.items()
    ]
