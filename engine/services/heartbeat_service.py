"""Writes the heartbeats that one flow is responsible for, each pair of clusters over a connection of its own."""

import asyncio
from collections.abc import Callable

from engine.base.errors import ConfigError
from engine.config.settings import FlowConfig, HeartbeatConfig, MirrorConfig
from engine.core.events.events import AnyEvent, Mm2TopicFailed
from engine.flow.replication.heartbeats import HeartbeatPlan, Heartbeats
from engine.kafka.admin.internal_topics import HEARTBEATS_KEY, ensure_mm2_topic
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import client_for


class HeartbeatService:
    """Heartbeats of the flow, and of configured pairs that are no flows; `report` takes an event for each failure."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig, report: Callable[[AnyEvent], None]) -> None:
        self._config, self._flow, self._report = config, flow, report

    async def run(self) -> None:
        """Write heartbeats until cancelled."""
        async with asyncio.TaskGroup() as group:
            for heartbeat in self._flow.heartbeats:
                group.create_task(self._keep(heartbeat))

    async def _keep(self, heartbeat: HeartbeatConfig) -> None:
        cluster = self._config.clusters[heartbeat.pair.target]
        try:
            client = client_for(cluster, f"raymirror|{heartbeat.pair}|heartbeats", heartbeat.client)
        except ConfigError as error:  # a placeholder that does not resolve; the copy may not need this cluster
            self._report(
                Mm2TopicFailed(
                    flow=self._flow.name, topic=heartbeat.topic, cluster=heartbeat.pair.target, what=str(error)
                )
            )
            return

        async def ready() -> None:
            await client.open()
            await ensure_mm2_topic(client, heartbeat.topic, heartbeat.replication_factor, HEARTBEATS_KEY)

        plan = HeartbeatPlan(heartbeat.pair, heartbeat.topic, heartbeat.every_s, self._flow.name)
        beats = Heartbeats(plan, KafkaCluster(client), ready, self._report)
        try:
            await beats.run()
        finally:
            await client.close()
