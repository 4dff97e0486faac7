"""Builds the topic service of a flow from its configuration: discovery, and the target's topics.

It is not in `runner`, because the process of a copier needs no part of it.
"""

from collections.abc import Awaitable, Callable

from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import AnyEvent, Mm2Active
from engine.flow.ports.discovery import Discovery
from engine.flow.surveys.mm2_presence import mm2_presence
from engine.kafka.discovery.topics import Topics
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.clients import clients_of
from policies.model import FlowName

Admit = Callable[[FlowName], Awaitable[tuple[AnyEvent, ...]]]
_MM2_PATIENCE_S = 3.0
"""How long to wait for a coordinator: discovery then continues, and reports nothing about MM2."""


class TopicService(Topics):
    """Discovery and topic creation of one flow, over connections of its own; its first round looks for MM2 too.

    `admit` is called each time before the service connects; it raises if the flow must not start.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig, admit: Admit | None = None) -> None:
        super().__init__(flow, *clients_of(config, flow.name, f"raymirror|{flow.name}|metadata"))
        self._looks_for_mm2 = True
        self._admit = admit

    async def open(self) -> None:
        """Connect to both clusters, once the flow may begin. Raises as `Topics.open` does, and what `admit` raises."""
        if self._admit is not None:
            self._events.add(*await self._admit(self._flow.name))
        await super().open()

    async def step(self) -> Discovery:
        """Run one round, as `Topics.step` does; the first round reports an active MM2 as an event."""
        if self._looks_for_mm2:
            group, groups = self._flow.mm2_group, KafkaGroups(self._target, patience_s=_MM2_PATIENCE_S)
            presence = await mm2_presence(KafkaCluster(self._target), groups, group)
            if presence.active:
                self._events.add(Mm2Active(flow=self._flow.name, group=group))
            self._looks_for_mm2 = False
        return await super().step()
