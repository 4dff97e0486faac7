"""Deletes a topic and creates it again with the same name and configs, as often as it takes and only once.

    has its old id -> deleted -> created -> has another id: made

The old id is stored before the topic is deleted. So after a kill the id shows whether it was deleted, and a topic that
has been made is never deleted again.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import ConnectionLost, MirrorError
from engine.flow.ports.ports import Cluster
from engine.flow.ports.settings_port import Settings
from policies.model import TopicPartition
from policies.sync.config_sync import CreateTopic, GrowTopic, TopicState
from policies.sync.topic_configs import TOPIC_OVERRIDE

_WITHIN_S = 120.0
"""Seconds for the brokers to delete one topic, and to show the new one with all its leaders."""


class AnewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that is to be made anew, as it is before: its id, and the configs that were set for it alone.

    `partitions`: how many it is to have.
    """

    topic: str
    topic_id: str
    partitions: int
    replicas: int
    configs: dict[str, str]


class NotMade(MirrorError):
    """A topic could not be made anew: topic, and why."""

    exit_code = 1

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(topic, why)
        self.topic, self.why = topic, why

    def __str__(self) -> str:
        return f"topic {self.topic} of the source could not be made anew: {self.why}"


class TopicRemaker:
    """Makes topics of one cluster anew."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._settings, self._cluster = settings, cluster

    async def described(self, partitions: Mapping[str, int]) -> list[AnewTopic]:
        """Describe topics before they are deleted; `partitions`: how many each is to have.

        Raises NotMade, ConnectionLost, BrokerUnreachable.
        """
        there = await self._settings.topics(sorted(partitions))
        answers = await self._settings.configs(dict.fromkeys(there))
        found: list[AnewTopic] = []
        for topic, count in sorted(partitions.items()):
            if topic not in there or topic not in answers.found:
                raise NotMade(topic, answers.failed.get(topic, "it does not exist any more"))
            topic_id = await self._cluster.settled_id(topic)
            if not topic_id:
                raise NotMade(
                    topic, "its brokers give topics no ids (Kafka before 2.8), so a kill could delete it twice"
                )
            own = {name: one.value for name, one in answers.found[topic].items() if one.source == TOPIC_OVERRIDE}
            replicas = there[topic].replicas or -1
            found.append(AnewTopic(topic=topic, topic_id=topic_id, partitions=count, replicas=replicas, configs=own))
        return found

    async def made(self, topics: Sequence[AnewTopic]) -> frozenset[str]:
        """Return the topics that are there with another id than before. Raises ConnectionLost, BrokerUnreachable."""
        there = await self._settings.topics([one.topic for one in topics])
        return frozenset([one.topic for one in topics if one.topic in there and await self._is_new(one)])

    async def deleted(self, topics: Sequence[AnewTopic]) -> frozenset[str]:
        """Return the topics that are not there, or have another id than before. Raises as `made` does."""
        there = await self._settings.topics([one.topic for one in topics])
        return frozenset([one.topic for one in topics if one.topic not in there or await self._is_new(one)])

    async def _is_new(self, one: AnewTopic) -> bool:
        return await self._cluster.settled_id(one.topic) not in ("", one.topic_id)

    async def make(self, one: AnewTopic, assure: Callable[[], None]) -> None:
        """Delete a topic that has its old id, and create it again.

        `assure` is asked right before each effect, and raises if this process may not go on. Raises NotMade,
        KafkaRefusal, ConnectionLost, BrokerUnreachable.
        """
        if one.topic not in await self.deleted([one]):
            assure()
            await self._settings.delete(one.topic, one.topic_id)
        wanted = CreateTopic(
            topic=one.topic,
            target=one.topic,
            partitions=one.partitions,
            replication_factor=one.replicas,
            configs=one.configs,
        )
        self._cluster.forget_topic(one.topic)
        give_up_at_s, attempt = now_s() + _WITHIN_S, 0
        while True:
            assure()
            await self._settings.create(wanted)
            state = await self._shown(one)
            if state is not None:
                break
            if now_s() >= give_up_at_s:
                raise NotMade(one.topic, f"its brokers did not delete and create it within {_WITHIN_S:.0f} s")
            attempt += 1
            await pause(backoff_s(attempt))
        await self._fit(one, state, assure)

    async def _shown(self, one: AnewTopic) -> TopicState | None:
        """Return the new topic once all brokers agree on it and each of its partitions has a leader."""
        state = (await self._settings.topics([one.topic])).get(one.topic)
        try:
            if state is None or not await self._is_new(one):
                return None
        except ConnectionLost:  # brokers do not agree yet
            return None
        self._cluster.forget_topic(one.topic)
        led = await self._cluster.leaders([TopicPartition(one.topic, number) for number in range(state.partitions)])
        return state if len(led) == state.partitions and all(leader.node >= 0 for leader in led.values()) else None

    async def _fit(self, one: AnewTopic, state: TopicState, assure: Callable[[], None]) -> None:
        """Give a topic that a client had brokers create meanwhile its partitions and configs."""
        if state.partitions > one.partitions:
            why = f"a client has created it with {state.partitions} partitions instead of {one.partitions}: delete it"
            raise NotMade(one.topic, why)
        if state.partitions < one.partitions:
            assure()
            change = GrowTopic(topic=one.topic, target=one.topic, partitions=one.partitions, before=state.partitions)
            await self._settings.grow(change)
        answers = await self._settings.configs({one.topic: None})
        if answers.failed:
            raise NotMade(one.topic, answers.failed[one.topic])
        now = {name: found.value for name, found in answers.found[one.topic].items()}
        if missing := {name: value for name, value in one.configs.items() if now.get(name) != value}:
            assure()
            if failed := await self._settings.alter({one.topic: missing}):
                raise NotMade(one.topic, failed[one.topic])
