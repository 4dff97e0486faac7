"""Tries to create or grow every topic that `run` would create or grow, without changing anything (validateOnly)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from engine.base.errors import ConfigError, KafkaRefusal
from engine.checks.room_check import lack_of_room
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.offset_map.map_blocks import map_topic
from engine.core.refused.entries import quarantine_topic
from engine.core.reports.progress_sample import lag_topic, progress_topic
from engine.kafka.admin.admin import ConfigsOf, broker_configs, refusal_text
from engine.kafka.admin.internal_topics import (
    CHECKPOINTS_KEY,
    EVENTS_CONFIGS,
    HEARTBEATS_KEY,
    LAG_CONFIGS,
    MAP_CONFIGS,
    MM2_CONFIGS,
    POSITIONS_CONFIGS,
    POSITIONS_KEY,
    PROGRESS_CONFIGS,
    QUARANTINE_CONFIGS,
    QUARANTINE_PARTITIONS,
    STATE_CONFIGS,
    SYNCS_KEY,
    check_partitions,
    check_policy,
    how_to_recreate,
    mm2_replicas,
)
from engine.kafka.admin.trials import NewTopic, Refused, try_creating, try_growing
from engine.kafka.admin.unknown_configs import Configs, UnknownConfigs, ask_with_known
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.protocol.faults import AUTHORIZATION, INVALID_CONFIG, INVALID_PARTITIONS, NONE, UNSUPPORTED_VERSION
from engine.services.sampling import PARTITIONS
from engine.state.state import events_topic, state_topic
from policies.model import FlowName
from policies.sync.creation import Create, Grow, plan_topic
from policies.sync.topic_configs import MIN_INSYNC, wanted_configs
from policies.sync.unknown_configs import how_to_settle
from policies.words import counted

_INVALID_REPLICAS, _POLICY_VIOLATION = 38, 44
_NOT_NOW = frozenset({-1, 7, 41, 89})
"""Unknown error, timed out, no controller, throttled by a quota: these codes say nothing about the topic."""
_TOO_FEW = -2
"""Not a code of Kafka: the cluster would create the topic, but no record could be appended to it."""
_NO_FAULT = AUTHORIZATION | {UNSUPPORTED_VERSION}
_RIGHT = {
    INVALID_CONFIG: "add the config's name to config.properties.exclude, or make the target cluster accept it",
    _POLICY_VIOLATION: "change the settings to what the create.topic.policy of that cluster allows, or exclude the"
    " topics (topics.exclude)",
    UNSUPPORTED_VERSION: "create these topics, or add their partitions, with the cluster's own tools",
}
_LEAVE_OUT = "fix the cause on the cluster, or exclude the topics (topics.exclude)"
_SHOWN = 3


class Problem(msgspec.Struct, frozen=True):
    """A line for the user; `stops`: the flow copies nothing because of this problem.

    `is_right`: a right is missing, which may be granted while the mirror runs.
    """

    flow: FlowName
    text: str
    stops: bool
    is_right: bool = False


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that would be created (or grown, if `grows`) on a cluster; `setting`: the key of its replication factor.

    `needed`: the flow copies nothing without this topic. `lenient`: a missing right is no fault, as in MM2
    (MirrorUtils.createCompactedTopic).
    """

    cluster: str
    topic: NewTopic
    setting: str
    needed: bool = False
    lenient: bool = False
    grows: bool = False
    is_copy: bool = False


def own_topics(flow: FlowConfig, brokers: Mapping[str, int]) -> tuple[Planned, ...]:
    """Return the topics of a flow other than its copies; `brokers`: the number of brokers by cluster alias."""
    source, target = flow.name
    replicas, positions = flow.positions_replication_factor, flow.positions_partitions
    rows = [
        (flow.positions_topic, positions, POSITIONS_CONFIGS, True),
        (map_topic(source), positions, MAP_CONFIGS, True),
        (state_topic(source), 1, STATE_CONFIGS, True),
        (events_topic(source), 1, EVENTS_CONFIGS, False),
    ]
    if flow.faults.leaves_out:
        rows.append((quarantine_topic(source), QUARANTINE_PARTITIONS, QUARANTINE_CONFIGS, False))
    if flow.progress_s:
        rows += [
            (progress_topic(source), PARTITIONS, PROGRESS_CONFIGS, False),
            (lag_topic(source), 1, LAG_CONFIGS, False),
        ]
    own = [
        Planned(
            cluster=target,
            topic=NewTopic(name=name, partitions=partitions, replicas=replicas, configs=configs),
            setting=POSITIONS_KEY,
            needed=needed,
        )
        for name, partitions, configs, needed in rows
    ]
    return (*own, *(one for one in _mm2_topics(flow, brokers) if one.cluster in brokers))


def _mm2_topics(flow: FlowConfig, brokers: Mapping[str, int]) -> Iterator[Planned]:
    groups, syncs = flow.groups, flow.syncs
    rows = [
        (
            one.pair.target,
            one.topic,
            one.replication_factor,
            HEARTBEATS_KEY if one.pair == flow.name else f"{one.pair}.{HEARTBEATS_KEY}",
        )
        for one in flow.heartbeats
    ]
    if groups.checkpoints:
        topic = flow.naming.checkpoints_topic(flow.name.source)
        replicas = groups.checkpoints_replication_factor
        rows.append((flow.name.target, topic, replicas, CHECKPOINTS_KEY))
    if syncs.enabled:
        rows.append((syncs.cluster, syncs.topic, syncs.replication_factor, SYNCS_KEY))
    for cluster, topic, asked, setting in rows:
        replicas = mm2_replicas(asked, brokers.get(cluster, 1))
        new = NewTopic(name=topic, partitions=1, replicas=replicas, configs=MM2_CONFIGS)
        yield Planned(cluster=cluster, topic=new, setting=setting, lenient=True)


class CreationCheck:
    """Tries what one flow would create, over open clients, given the metadata of both clusters."""

    def __init__(
        self,
        config: MirrorConfig,
        flow: FlowConfig,
        clients: Mapping[str, ClusterClient],
        metadata: Mapping[str, Metadata],
    ) -> None:
        self._config, self._flow, self._clients, self._metadata = config, flow, clients, metadata
        self._brokers = {alias: len(found.brokers) for alias, found in metadata.items()}
        self._unknown = UnknownConfigs()
        self.doubts: list[str] = []
        """Topics that could not be judged, and why; configs that copies will lack; and disks that are too small."""

    async def problems(self, copies: Mapping[str, str]) -> tuple[Problem, ...]:
        """Return everything that is refused; `copies` maps source topics to their target names.

        Raises ConnectionLost, BrokerUnreachable.
        """
        own = own_topics(self._flow, self._brokers)
        found = await self._unfit([one for one in own if self._is_there(one)])
        planned = [one for one in own if not self._is_there(one)]
        to_copy = await self._planned_copies(copies, found)
        await self._look_for_room(copies, to_copy)
        planned += to_copy
        refused: list[tuple[Planned, Refused]] = []
        for alias in dict.fromkeys(one.cluster for one in planned):
            here = [one for one in planned if one.cluster == alias]
            refused += await self._try(alias, here)
        self.doubts += self._left_out()
        nothing = bool(copies) and sum(one.is_copy and not one.grows for one, _ in refused) == len(copies)
        return (*found, *self._told(refused, nothing=nothing))

    async def problems_while_away(self) -> tuple[Problem, ...]:
        """Return what the cluster that answers refuses, while the flow's other cluster is unreachable.

        Raises ConnectionLost, BrokerUnreachable.
        """
        own = [one for one in own_topics(self._flow, self._brokers) if one.cluster in self._brokers]
        found = await self._unfit([one for one in own if self._is_there(one)])
        refused: list[tuple[Planned, Refused]] = []
        for alias in self._brokers.keys() & set(self._flow.name):
            refused += await self._try(alias, [one for one in own if one.cluster == alias and not self._is_there(one)])
        return (*found, *self._told(refused, nothing=False), *self._too_many_replicas())

    def _too_many_replicas(self) -> Iterator[Problem]:
        """Judge the replicas of copies by the number of brokers: the source topics are not known."""
        target, replicas = self._flow.name.target, self._flow.replication_factor
        brokers = self._brokers.get(target, replicas)
        if replicas > brokers:
            wrong = f"{counted(replicas, 'replica')} of every copy on cluster {target!r}"
            right = f"the cluster has {counted(brokers, 'broker')}: set {brokers} or less, or -1 for its default"
            yield self._problem("replication.factor", wrong, right, True)

    async def _look_for_room(self, copies: Mapping[str, str], to_copy: Sequence[Planned]) -> None:
        source, target = (self._clients[alias] for alias in self._flow.name)
        created = {one.topic.name: one.topic.partitions for one in to_copy if not one.grows}
        missing = {topic: created[name] for topic, name in copies.items() if name in created}
        lack = await lack_of_room(self._flow.name, source, target, missing, self._flow.replication_factor)
        self.doubts += [lack] if lack else []

    def _is_there(self, planned: Planned) -> bool:
        described = self._metadata[planned.cluster].topics.get(planned.topic.name)
        return described is not None and bool(described.partitions)

    async def _unfit(self, there: Iterable[Planned]) -> list[Problem]:
        """Judge existing topics of raymirror as `run` does; topics of MM2 stay as they are."""
        found: list[Problem] = []
        for one in there:
            if one.lenient:
                continue
            client, topic = self._clients[one.cluster], one.topic
            partitions = len(self._metadata[one.cluster].topics[topic.name].partitions)
            try:
                check_partitions(client, topic.name, partitions, topic.partitions, self._as_it_is(one, partitions))
                unread = await check_policy(client, topic.name, dict(topic.configs))
                self.doubts += [unread] if unread else []
            except KafkaRefusal as refusal:
                setting = "offset.storage.partitions" if refusal.code == INVALID_PARTITIONS else one.setting
                found.append(self._problem(setting, f"{refusal.asked}: {refusal.name}", refusal.right, one.needed))
        return found

    def _as_it_is(self, one: Planned, partitions: int) -> str:
        if one.topic.name == self._flow.positions_topic:
            return f"set offset.storage.partitions = {partitions}"
        return how_to_recreate(one.topic.partitions, dict(one.topic.configs))

    async def _planned_copies(self, copies: Mapping[str, str], found: list[Problem]) -> list[Planned]:
        """Return copies to be created or grown, as `run` would do it; configs that cannot be read are a problem."""
        source, target = (self._metadata[alias].topics for alias in self._flow.name)
        there = {one: len(target[name].partitions) or None if name in target else None for one, name in copies.items()}
        configs: dict[str, dict[str, str]] = {}
        unread: dict[str, list[str]] = {}
        missing: dict[str, tuple[str, ...] | None] = {
            topic: None for topic, present in there.items() if present is None
        }
        right = "grant DescribeConfigs on these topics; without it they are not copied"
        try:
            described = await ConfigsOf(self._clients[self._flow.name.source]).describe(missing)
        except KafkaRefusal as refusal:  # the brokers do not offer the request
            described, unread[refusal.name] = [], sorted(missing)
            right = "create their copies yourself; copies that are missing are not created"
        for one in described:
            if one.error_code == NONE:
                configs[one.topic] = wanted_configs(one.configs, self._flow.config_rules)
            else:
                unread.setdefault(refusal_text(one.error_code, one.message), []).append(one.topic)
        for why, topics in unread.items():
            wrong = f"configs of {_named(topics)} on cluster {self._flow.name.source!r} cannot be read: {why}"
            found.append(self._problem_of(self._flow.name.source, wrong, right, stops=False))
        planned: list[Planned] = []
        for topic, present in there.items():
            if present is None and topic not in configs:
                continue
            change = plan_topic(
                len(source[topic].partitions), present, self._flow.replication_factor, configs.get(topic, {})
            )
            if change is not None:
                planned.append(self._copy(copies[topic], change))
        return planned

    def _copy(self, name: str, change: Create | Grow) -> Planned:
        created = isinstance(change, Create)
        return Planned(
            cluster=self._flow.name.target,
            topic=NewTopic(
                name=name,
                partitions=change.partitions,
                replicas=change.replication_factor if isinstance(change, Create) else -1,
                configs=change.configs if isinstance(change, Create) else {},
            ),
            setting="replication.factor",
            grows=not created,
            is_copy=True,
        )

    async def _try(self, alias: str, planned: Sequence[Planned]) -> list[tuple[Planned, Refused]]:
        client = self._clients[alias]
        said = await self._try_creating(client, [one for one in planned if not one.grows])
        said |= await try_growing(client, {one.topic.name: one.topic.partitions for one in planned if one.grows})
        least = await _min_insync(client)
        refused: list[tuple[Planned, Refused]] = []
        untried: dict[str, list[str]] = {}
        for one in planned:
            answer = said.get(one.topic.name)
            if answer is None:
                if 0 < one.topic.replicas < least and MIN_INSYNC not in one.topic.configs:
                    refused.append((one, Refused(_TOO_FEW, f"the cluster has {MIN_INSYNC} = {least}")))
            elif answer.code in _NOT_NOW:
                untried.setdefault(answer.text, []).append(one.topic.name)
            elif not (one.lenient and answer.code in _NO_FAULT):
                refused.append((one, answer))
        self.doubts += [
            f"cluster {alias!r} cannot say now whether {_named(topics)} could be created: {why}"
            for why, topics in untried.items()
        ]
        return refused

    async def _try_creating(self, client: ClusterClient, planned: Sequence[Planned]) -> dict[str, Refused]:
        """Try topics; copies without the configs that the cluster does not know, as they are created."""
        topics = {one.topic.name: one.topic for one in planned}
        copies = {one.topic.name for one in planned if one.is_copy}
        said: dict[str, Refused] = {}

        async def attempt(part: Mapping[str, Configs]) -> dict[str, tuple[int, str]]:
            answers = await try_creating(
                client,
                [
                    msgspec.structs.replace(topics[name], configs=configs) if name in copies else topics[name]
                    for name, configs in part.items()
                ],
            )
            for name in part:
                said.pop(name, None)
            said.update(answers)
            return {name: (why.code, why.text) for name, why in answers.items() if name in copies}

        await ask_with_known({name: one.configs for name, one in topics.items()}, self._unknown, attempt)
        return said

    # --- texts -----------------------------------------------------------------------------------------------

    def _told(self, refused: Iterable[tuple[Planned, Refused]], *, nothing: bool) -> Iterator[Problem]:
        """Yield one line for all topics that are refused for the same reason and that the same setting fixes."""
        alike: dict[tuple[str, str, Refused, int, bool], list[Planned]] = {}
        for one, why in refused:
            setting = "" if why.code in AUTHORIZATION else one.setting
            replicas = one.topic.replicas if setting else 0
            alike.setdefault((one.cluster, setting, why, replicas, one.grows), []).append(one)
        for (cluster, setting, why, replicas, grows), topics in alike.items():
            stops = any(one.needed or (one.is_copy and nothing) for one in topics)
            named = _named([one.topic.name for one in topics])
            if not setting:
                verb, right = ("add partitions to", "Alter") if grows else ("create", "Create")
                wrong = f"cluster {cluster!r} does not let raymirror {verb} {named}: {why.text}"
                right = (
                    f"grant {right} on {'these topics' if grows else 'the cluster or on these topics'}"
                    f" to {self._clients[cluster].grantee.who}"
                )
                problem = self._problem_of(cluster, wrong, right, stops=stops)
                yield msgspec.structs.replace(problem, is_right=True)
            elif why.code == _TOO_FEW:
                wrong = f"{counted(replicas, 'replica')} of {named} on cluster {cluster!r}: {why.text}"
                right = f"the cluster would refuse every write: set {why.text.rpartition(' ')[2]} or more"
                yield self._problem(setting, wrong, right, stops)
            elif why.code == _INVALID_REPLICAS:
                brokers = self._brokers[cluster]
                wrong = f"{counted(replicas, 'replica')} of {named} on cluster {cluster!r}: {why.text.rstrip('.')}"
                right = f"the cluster has {counted(brokers, 'broker')}: set {brokers} or less, or -1 for its default"
                yield self._problem(setting, wrong, right, stops)
            else:
                verb = "adding partitions to" if grows else "creating"
                about_configs = why.code == INVALID_CONFIG and topics[0].is_copy
                place = "config.properties.exclude" if about_configs else "topics" if topics[0].is_copy else setting
                wrong = f"{verb} {named} on cluster {cluster!r}: {why.text}"
                yield self._problem(place, wrong, _RIGHT.get(why.code, _LEAVE_OUT), stops)

    def _left_out(self) -> Iterator[str]:
        """Yield a line for each config that the target does not know: copies are created without it."""
        for config, copy in sorted(self._unknown.take_new().items()):
            target = self._flow.name.target
            wrong = f"cluster {target!r} does not know config {config}: {copy} and such copies are created without it"
            yield self._problem("config.properties.exclude", wrong, how_to_settle(config), False).text

    def _problem(self, setting: str, wrong: str, right: str, stops: bool) -> Problem:
        key, line = self._flow.places.get(setting, (setting, 0))
        unset = " (not set: this is the default)" if not line and setting.endswith((".factor", ".partitions")) else ""
        return Problem(self._flow.name, str(ConfigError(self._config.file, line, f"{key}{unset}", wrong, right)), stops)

    def _problem_of(self, alias: str, wrong: str, right: str, *, stops: bool) -> Problem:
        """Return a problem with the rights on a cluster; its place is the line of the cluster's addresses."""
        return Problem(self._flow.name, at_cluster(self._config, alias, wrong, right), stops)


def at_cluster(config: MirrorConfig, alias: str, wrong: str, right: str) -> str:
    """Say what is wrong with the cluster of an alias, at the line of its addresses."""
    key, line = config.clusters[alias].places.get("bootstrap.servers", (f"{alias}.bootstrap.servers", 0))
    return str(ConfigError(config.file, line, key, wrong, right))


def _named(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:_SHOWN])
    more = f" and {len(topics) - _SHOWN:,} more" if len(topics) > _SHOWN else ""
    return f"{'topic' if len(topics) == 1 else 'topics'} {shown}{more}"


async def _min_insync(client: ClusterClient) -> int:
    """Return the highest default min.insync.replicas of all brokers; 1 if no broker's config can be read."""
    told = await broker_configs(client, [MIN_INSYNC])
    return max((int(configs[MIN_INSYNC]) for configs in told.values() if MIN_INSYNC in configs), default=1)
