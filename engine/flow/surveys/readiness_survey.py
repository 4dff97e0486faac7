"""Reads what applications would miss on the target: topics with their limits, and ACLs of both clusters."""

from collections.abc import Mapping

import msgspec

from engine.base.errors import KafkaRefusal
from engine.flow.ports.settings_port import NoAuthorizer, Settings
from policies.dr.readiness import ClientRules, Unready, WrittenTopic, unready_rights, unready_topics
from policies.sync.acl_sync import Binding, Resource
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry

_CONFIGS = ("max.message.bytes", "min.insync.replicas")


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """What applications would miss; `unknown`: what could not be compared, and why."""

    unready: tuple[Unready, ...] = ()
    unknown: tuple[str, ...] = ()


async def survey_readiness(
    source: Settings, target: Settings, topics: Mapping[str, TopicState], rules: ClientRules
) -> Readiness:
    """Compare topics that the flow copies, and rights on them. Raises ConnectionLost, BrokerUnreachable."""
    there = await target.topics(sorted(topics))
    here, failed_here = await _written(source, topics)
    found, failed = await _written(target, there)
    comparable = {topic: one for topic, one in here.items() if topic in found or topic not in there}
    rights, why = await _rights(source, target, rules)
    return Readiness(
        unready=(*unready_topics(comparable, found), *rights),
        unknown=(*(f"topic {topic}: {text}" for topic, text in sorted((failed_here | failed).items())), *why),
    )


async def _written(
    cluster: Settings, topics: Mapping[str, TopicState]
) -> tuple[dict[str, WrittenTopic], dict[str, str]]:
    answers = await cluster.configs(dict.fromkeys(topics, _CONFIGS))
    return {topic: _limits(topics[topic], configs) for topic, configs in answers.found.items()}, answers.failed


def _limits(state: TopicState, configs: Mapping[str, ConfigEntry]) -> WrittenTopic:
    return WrittenTopic(
        replicas=state.replicas,
        min_insync=int(configs["min.insync.replicas"].value),
        max_bytes=int(configs["max.message.bytes"].value),
    )


async def _rights(source: Settings, target: Settings, rules: ClientRules) -> tuple[list[Unready], tuple[str, ...]]:
    """Compare the ACLs; a target without an authorizer permits everything."""
    try:
        ours = await _bindings(target)
    except NoAuthorizer:
        return [], ()
    except KafkaRefusal as refusal:
        return [], (f"rights: {refusal}",)
    try:
        theirs = await _bindings(source)
    except NoAuthorizer as none:
        return [], (f"rights: {none}, so nothing says who needs which right on the target",)
    except KafkaRefusal as refusal:
        return [], (f"rights: {refusal}",)
    return unready_rights(theirs, ours, rules), ()


async def _bindings(cluster: Settings) -> set[Binding]:
    found: set[Binding] = set()
    for resource in Resource:
        found |= await cluster.acls(resource)
    return found
