"""Sets or removes the stored positions of a flow that nothing copies, over a connection of its own."""

from collections.abc import Mapping

from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.ownership.alteration import AlterationOptions, Alterations, alter_positions
from engine.services.clients import copying_clients
from engine.services.maps import last_known_of
from engine.services.target_view import FlowTarget
from policies.model import TopicPartition

CLIENT_ID = "raymirror-alter"
_NAMED = 20


class PositionsNotAltered(MirrorError):
    """Some positions were not written; the others were."""

    exit_code = 1  # the same request may succeed in a moment

    def __init__(self, flow: str, failed: dict[str, str]) -> None:
        super().__init__(flow, failed)
        self.flow, self.failed = flow, failed

    def __str__(self) -> str:
        parts = [f"{lane}: {why}" for lane, why in list(self.failed.items())[:_NAMED]]
        more = [f"and {len(self.failed) - _NAMED} more"] if len(self.failed) > _NAMED else []
        return f"positions of flow {self.flow} were not changed: {'; '.join([*parts, *more])}; try again"


class PositionAlteration(FlowTarget):
    """Writes positions of one flow; nothing may copy the flow meanwhile."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(flow, copying_clients(config, flow.name, CLIENT_ID))

    async def alter(
        self,
        wanted: Alterations | None,
        epochs: Mapping[TopicPartition, int] | None = None,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Set the positions of some lanes; None: remove those of all. Raises PositionsNotAltered, KafkaRefusal.

        `epochs`, `ends`: see `alter_positions`.
        """
        flow = self._flow
        if wanted is None:
            known = await last_known_of(flow, self._target)
            if known.unread:
                raise PositionsNotAltered(str(flow.name), known.unread)
            wanted = dict.fromkeys(one.lane for one in known.lanes)
        options = AlterationOptions(
            flow=flow.name,
            topic=flow.positions_topic,
            partitions=flow.positions_partitions,
            keys=flow.position_keys,
            request_timeout_s=flow.request_timeout_s,
        )
        if failed := await alter_positions(self._target, options, wanted, epochs, ends):
            raise PositionsNotAltered(str(flow.name), failed)
