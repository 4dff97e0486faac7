"""Writes the events of one flow to its target cluster, over a connection of its own."""

from collections.abc import Iterable

from engine.base.clock import backoff_s, pause
from engine.base.errors import KafkaRefusal, MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import Event
from engine.flow.topic_logs.event_log import EventLog, EventOptions
from engine.kafka.admin.internal_topics import EVENTS_CONFIGS, ensure_internal_topic
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import client_for
from engine.state.state import events_topic

_MOST_S = 30.0


class EventService(EventLog):
    """The EventLog of a flow: `run` first connects and creates the topic, and retries that until it succeeds."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig, kinds: Iterable[type[Event]] = ()) -> None:
        self._client = client_for(
            config.clusters[flow.name.target], f"raymirror|{flow.name}|events", flow.target_client
        )
        self._replication_factor = flow.positions_replication_factor
        options = EventOptions(flow=flow.name, topic=events_topic(flow.name.source))
        super().__init__(options, KafkaCluster(self._client, request_timeout_s=options.request_timeout_s), kinds)

    async def run(self) -> None:
        """Write until cancelled; `trouble` holds what is wrong with the target."""
        attempt = 0
        while not await self._ready():
            attempt += 1
            await pause(backoff_s(attempt, most_s=_MOST_S))
        await super().run()

    async def _ready(self) -> bool:
        try:
            await self._client.open()
            await ensure_internal_topic(self._client, self.options.topic, self._replication_factor, EVENTS_CONFIGS)
        except KafkaRefusal as refusal:
            self.refused(str(refusal))
            return False
        except MirrorError as error:
            self.trouble = str(error)
            return False
        self.trouble = ""
        return True

    async def close(self) -> None:
        """Disconnect; events that are still queued are lost."""
        await super().close()
        await self._client.close()
