"""Keeps the durable state of one flow on its target cluster, over a connection of its own."""

from collections.abc import Callable

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs.state_log import StateLog
from engine.kafka.admin.admin import shortest_expiry_s
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.internal_topics import STATE_CONFIGS, ensure_internal_topic
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import client_for
from engine.state.state import Deployment, StateHolder, state_topic


class StateService(StateLog):
    """The StateLog of a flow: `open` also connects and creates the topic, `close` disconnects. Open it only once."""

    def __init__(
        self,
        config: MirrorConfig,
        flow: FlowConfig,
        holder: StateHolder,
        known_dead: Callable[[Deployment], bool] = lambda _owner: False,
    ) -> None:
        self._client = client_for(config.clusters[flow.name.target], f"raymirror|{flow.name}|state", flow.target_client)
        self._flow = flow
        self._replication_factor = flow.positions_replication_factor
        options = StateOptions(flow=flow.name, topic=state_topic(flow.name.source))
        self._kafka = KafkaCluster(self._client, request_timeout_s=options.request_timeout_s)
        super().__init__(options, self._kafka, holder, known_dead)

    async def open(self) -> None:
        """Connect, create the topic if it is missing, take the flow.

        Raises what StateLog.open raises, OtherCluster if the positions belong to another target.
        """
        await self._client.open()
        await check_clusters(self._flow, None, self._client)
        await self._ensure()
        expiry_s = await shortest_expiry_s(self._client)
        if expiry_s is not None:
            self.keep_alive_s = min(self.keep_alive_s, expiry_s / 4)
        await super().open()

    async def _mend(self) -> None:
        """Create the topic again if it was deleted; the next renewal writes all its entries.

        If something else has created it already, that topic counts, whatever its id.
        """
        self._kafka.forget(self.options.topic)
        try:
            if await self._ensure():
                self.trouble = f"topic {self.options.topic} was deleted; raymirror created it again and rewrites it"
        except (BrokerUnreachable, ConnectionLost):
            return  # the failed renewal has set `trouble`
        except KafkaRefusal as refusal:
            self.trouble = str(refusal)

    async def _ensure(self) -> bool:
        return await ensure_internal_topic(self._client, self.options.topic, self._replication_factor, STATE_CONFIGS)

    async def close(self, *, release: bool = True, within_s: float = 5.0) -> None:
        """Give the flow back and disconnect."""
        try:
            await super().close(release=release, within_s=within_s)
        finally:
            await self._client.close()
