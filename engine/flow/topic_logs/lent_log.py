"""Reads and writes which configs a failover has lent to topics of the target, in the flow's state topic.

Who reads settings of that cluster shows them as they were before (`engine/kafka/admin/unfenced_settings.py`).
"""

from collections.abc import Iterable

from engine.flow.ports.ports import Cluster
from engine.flow.topic_logs.unowned_log import UnownedLog
from engine.state.state import DESIRED, LENT_SCOPE, DesiredState, LentEntry, StateCodec, lent_key, state_topic
from policies.dr.lent_config import LentConfig
from policies.model import FlowName


class LentLog(UnownedLog):
    """The configs that are lent to topics of one flow's target. Raises what `UnownedLog` raises."""

    def __init__(self, cluster: Cluster, flow: FlowName, request_timeout_s: float) -> None:
        super().__init__(cluster, flow, LENT_SCOPE, request_timeout_s)
        self._wanted = StateCodec(flow, state_topic(flow.source))

    async def read(self) -> tuple[LentConfig, ...]:
        """Return what is lent."""
        if not await self.exists():
            return ()
        return tuple(one.config for one in (await self.entries()).values() if isinstance(one, LentEntry))

    async def note(self, lent: Iterable[LentConfig]) -> None:
        """Store what is to be lent."""
        if entries := {lent_key(one.topic, one.name): LentEntry(config=one) for one in lent}:
            await self.put(entries)

    async def forget(self, lent: Iterable[LentConfig]) -> None:
        """Remove what is lent no longer."""
        if keys := [lent_key(one.topic, one.name) for one in lent]:
            await self.put(dict.fromkeys(keys))

    async def is_copied(self) -> bool:
        """Whether the flow is wanted to run: a failover pauses it before it lends, and stops it afterwards."""
        wanted = (await self.entries(codec=self._wanted)).get(DESIRED)
        return isinstance(wanted, DesiredState) and wanted.state == "running"
