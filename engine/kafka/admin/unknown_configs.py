"""Creates topics without the configs that their cluster does not know, e.g. a config of Kafka 4 on brokers of 3.x.

    create all -> some are refused, each names one unknown config -> create those again without it -> ...

Which configs these are is remembered, so a cluster refuses one request for each of them and not one for each topic. A
config is asked for again after an hour: brokers that were upgraded may know it. DescribeConfigs would tell before the
first request, but brokers of other makers accept configs that they do not describe, and during an upgrade the broker
that is asked may know more than the controller.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from engine.base.clock import now_s
from engine.base.errors import KafkaRefusal
from engine.kafka.admin.admin import create_topics
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import INVALID_CONFIG
from policies.sync.creation import Create
from policies.sync.unknown_configs import unknown_config

Configs = dict[str, str]
Ask = Callable[[Mapping[str, Configs]], Awaitable[Mapping[str, tuple[int, str]]]]
"""Asks for topics with these configs; returns error code and text of each refused one that may be asked for again."""

_AGAIN_S = 3600.0
"""Seconds for which a config that a cluster does not know is not asked for again."""


class UnknownConfigs:
    """The topic configs that one cluster does not know, as its refusals have said."""

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}
        self._first: dict[str, str] = {}
        """The first topic that each config was refused for, of those that were not taken."""
        self._taken: set[str] = set()

    def without(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Return the configs that the cluster may know."""
        return {name: value for name, value in configs.items() if self._until_s.get(name, 0.0) <= now_s()}

    def learn(self, topic: str, code: int, text: str, configs: Mapping[str, str]) -> bool:
        """Note a refusal of a topic with these configs; return whether it says that one of them is unknown."""
        name = unknown_config(text, configs) if code == INVALID_CONFIG else None
        if name is None:
            return False
        self._until_s[name] = now_s() + _AGAIN_S
        if name not in self._taken:
            self._first.setdefault(name, topic)
        return True

    def take_new(self) -> dict[str, str]:
        """Return the configs that no earlier call returned, with the first topic that each was refused for."""
        first, self._first = self._first, {}
        self._taken |= first.keys()
        return first


class CreatedTopics(NamedTuple):
    """By topic, whether it was made (False: it exists), or why not; and the configs that made topics lack."""

    made: dict[str, bool | KafkaRefusal]
    left_out: dict[str, tuple[str, ...]]


async def ask_with_known(
    wanted: Mapping[str, Mapping[str, str]], unknown: UnknownConfigs, ask: Ask
) -> dict[str, Configs]:
    """Ask for topics with these configs, again without those that a refusal says to be unknown.

    Returns the configs that each topic was last asked for with; each further question has fewer. Raises what `ask`
    raises.
    """
    asked: dict[str, Configs] = {}
    again: Mapping[str, Mapping[str, str]] = wanted
    while again:
        part = {topic: unknown.without(configs) for topic, configs in again.items()}
        asked |= part
        again = {
            topic: part[topic]
            for topic, (code, text) in (await ask(part)).items()
            if unknown.learn(topic, code, text, part[topic])
        }
    return asked


async def create_with_known(
    client: ClusterClient, new: Mapping[str, Create], unknown: UnknownConfigs, *, waits: bool = False
) -> CreatedTopics:
    """Create topics as `create_topics` does, without the configs that the cluster does not know.

    Raises as `create_topics` does.
    """
    made: dict[str, bool | KafkaRefusal] = {}

    async def create(part: Mapping[str, Configs]) -> dict[str, tuple[int, str]]:
        topics = {topic: msgspec.structs.replace(new[topic], configs=configs) for topic, configs in part.items()}
        answers = await create_topics(client, topics, waits=waits)
        made.update(answers)
        return {topic: (why.code, why.name) for topic, why in answers.items() if isinstance(why, KafkaRefusal)}

    asked = await ask_with_known({topic: one.configs for topic, one in new.items()}, unknown, create)
    left_out = {
        topic: tuple(sorted(new[topic].configs.keys() - asked[topic].keys()))
        for topic, answer in made.items()
        if answer is True
    }
    return CreatedTopics(made, {topic: names for topic, names in left_out.items() if names})
