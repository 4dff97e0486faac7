"""Checks a mirror before it starts: clusters, topics, permissions, name collisions. It changes nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec

from engine.base.errors import BrokerUnreachable, ClusterAway, ConnectionLost, KafkaRefusal, MirrorError, NotReady
from engine.base.tasks import run_all
from engine.checks.capability_check import lack_doubts, lack_problems
from engine.checks.creation_check import CreationCheck, Problem, at_cluster
from engine.checks.distance_check import distance_doubts
from engine.checks.idle_patterns import Places, idle_groups, idle_topics, source_groups
from engine.checks.quota_check import quota_doubts
from engine.checks.shared_clusters import SharedClusters
from engine.config.settings import ConfigWarning, FlowConfig, MirrorConfig
from engine.core.mm2.commit_records import TOPIC as COMMITS_TOPIC
from engine.flow.ports.ports import LATEST
from engine.kafka.admin.admin import producer_expiries_s
from engine.kafka.admin.rights import missing_rights
from engine.kafka.capabilities.probe import ClusterAbilities, probe
from engine.kafka.capabilities.table import TRANSACTIONS
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.gateway import KafkaCluster
from engine.kafka.protocol.faults import TRANSACTIONAL_ID_AUTHORIZATION_FAILED, error_name
from engine.services.clients import asking_client
from policies.model import FlowName, TopicPartition
from policies.words import counted

CLIENT_ID = "raymirror-check"
REACHABLE = "set it to brokers that answer from this machine"
GRANT = "grant Write and Describe on the transactional ids that begin with 'raymirror' (a prefixed ACL)"


class TopicPreview(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that would be copied; `exists`: the target has it already."""

    source: str
    target: str
    partitions: int
    exists: bool


class FlowPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that one flow would copy, and the findings about the flow.

    `polled`: why raymirror polls groups instead of reading their commits as they are written. `unfenced`: the missing
    rights on transactional ids; without them the target does not refuse a previous owner. `unread_expiry`: the target's
    brokers that do not show how long they remember producers.
    """

    flow: FlowName
    topics: tuple[TopicPreview, ...]
    left_out: int
    polled: str = ""
    unfenced: tuple[str, ...] = ()
    unread_expiry: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()
    """Warnings: the flow runs all the same, but this may not be intended."""
    unreachable: tuple[str, ...] = ()
    """Unreachable brokers of both clusters: one sentence each, with the cause and with what waits for the broker."""
    abilities: tuple[ClusterAbilities, ...] = ()
    """What the brokers of the source, and of the target, can do."""
    idle: tuple[ConfigWarning, ...] = ()
    """Patterns that match no topic or no consumer group of the source, each with its likely meaning."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All findings about the flow as sentences, except those about its patterns."""
        return (*filter(None, (self.unfenced_text(), self.expiry_text())), *self.doubts, *self.unreachable)

    @property
    def copies(self) -> dict[str, str]:
        """The source topics, each with its name on the target."""
        return {topic.source: topic.target for topic in self.topics}

    def unfenced_text(self) -> str:
        """Say which rights are missing and how to grant them; empty if none is missing."""
        if not self.unfenced:
            return ""
        return (
            f"cluster {self.flow.target!r} does not grant raymirror {' and '.join(self.unfenced)} on transactional ids:"
            f" raymirror detects writes of a partition's previous owner, but brokers do not refuse them; {GRANT}"
        )

    def expiry_text(self) -> str:
        """Say which brokers do not show their producer expiry, and what that costs; empty if all do."""
        if not self.unread_expiry:
            return ""
        return (
            f"producer.id.expiration.ms cannot be read from {counted(len(self.unread_expiry), 'broker')} of cluster"
            f" {self.flow.target!r} ({', '.join(map(str, self.unread_expiry))}): after an append whose answer is lost,"
            " raymirror always sets a new barrier on the partition before it sends the batch again; grant"
            " DescribeConfigs on the cluster"
        )


async def preview(
    config: MirrorConfig,
    bear: Callable[[str, BrokerUnreachable], None] | None = None,
    hold: Callable[[Problem], None] | None = None,
    *,
    young: bool = False,
) -> tuple[FlowPreview, ...]:
    """Ask both clusters of every flow what would be copied.

    With `bear`, as for `run`: `bear` is called with the alias of each unreachable cluster and the cause, and the flows
    of that cluster are left out. A problem that does not stop its flow goes into `doubts`. Without `bear`, everything
    that is wrong is raised. `hold` is called with each missing right that stops a flow, and that flow is left out, if
    other flows can start. `young`: the clusters started a moment ago. They do not list a group before they have
    loaded it, so idle patterns of groups are not reported.

    Raises NotReady,
    ClusterAway if nothing else is wrong (with `bear`: if no flow is left and waiting does not help),
    ConnectionLost, ConfigError (a placeholder that does not resolve).
    """
    async with AsyncExitStack() as stack:
        used = sorted({alias for flow in config.flows for alias in flow.name})
        clients = {alias: asking_client(config, alias, CLIENT_ID) for alias in used}
        for client in clients.values():
            stack.push_async_callback(client.close)
        metadata: dict[str, Metadata] = {}
        absent: dict[str, BrokerUnreachable] = {}

        async def ask(alias: str) -> None:
            try:
                await clients[alias].open()
                metadata[alias] = await clients[alias].metadata(None)
            except BrokerUnreachable as unreachable:
                absent[alias] = unreachable

        await run_all(*map(ask, used))
        away = {alias: await clients[alias].unreachable(found.brokers) for alias, found in metadata.items()}
        present = [flow for flow in config.flows if not absent.keys() & set(flow.name)]
        _bear_absent(absent, bear, alone=not present)
        flows = [preview_flow(flow, metadata, config.places) for flow in present]
        abilities = await _abilities(config, {alias: clients[alias] for alias in metadata})
        problems, doubts = await _judge(config, present, flows, clients, metadata)
        for flow in present:
            source, target = (abilities[alias] for alias in flow.name)
            problems += lack_problems(config, flow, source, target)
            doubts[flow.name] += lack_doubts(flow, source, target)
        unfenced = {
            flow.name: await _unfenced(config, flow, clients[flow.name.target], problems)
            for flow in present
            if abilities[flow.name.target].has(TRANSACTIONS)
        }
        if absent and bear is None:
            problems += await _judge_alone(config, clients, metadata)
        held = frozenset[FlowName]() if hold is None else _held(config, problems)
        for problem in problems:
            if hold is not None and problem.stops and problem.flow in held:
                hold(problem)
        problems = [problem for problem in problems if problem.flow not in held]
        present, flows = (
            [one for one in present if one.name not in held],
            [one for one in flows if one.flow not in held],
        )
        if any(problem.stops or bear is None for problem in problems) or (absent and bear is None):
            raise _not_ready(config, absent if bear is None else {}, problems)
        for problem in problems:
            doubts[problem.flow].append(problem.text)
        return tuple(
            [
                msgspec.structs.replace(
                    one,
                    polled=await _polled(clients[flow.name.source], flow, metadata[flow.name.source]),
                    unfenced=unfenced.get(flow.name, ()),
                    unread_expiry=await _unread_expiry(clients[flow.name.target]),
                    unreachable=tuple(_unreachable(one, metadata, away)),
                    doubts=tuple(doubts[one.flow]),
                    abilities=tuple(abilities[alias] for alias in flow.name),
                    idle=(
                        *one.idle,
                        *(() if young else await _idle_groups(clients[flow.name.source], flow, config.places)),
                    ),
                )
                for flow, one in zip(present, flows, strict=True)
            ]
        )


async def _abilities(config: MirrorConfig, clients: Mapping[str, ClusterClient]) -> dict[str, ClusterAbilities]:
    """Probe the clusters that answer, all at once; only targets are asked about transactions."""
    found: dict[str, ClusterAbilities] = {}
    flows = {flow.name.target: flow for flow in config.flows}

    async def ask(alias: str, client: ClusterClient) -> None:
        found[alias] = await probe(client, f"raymirror.{flows[alias].name}.check" if alias in flows else None)

    await run_all(*(ask(alias, client) for alias, client in clients.items()))
    return found


def _bear_absent(
    absent: Mapping[str, BrokerUnreachable], bear: Callable[[str, BrokerUnreachable], None] | None, *, alone: bool
) -> None:
    """Report unreachable clusters to `bear`; if no flow is left, raise the error that waiting does not fix."""
    if bear is None:
        return  # the caller first finds what else is wrong
    for alias in sorted(absent):
        if alone and not absent[alias].may_pass:
            raise absent[alias]
    for alias in sorted(absent):
        bear(alias, absent[alias])


def _held(config: MirrorConfig, problems: Sequence[Problem]) -> frozenset[FlowName]:
    """Return the flows that only missing rights stop; none if nothing else would start."""
    stopped = {problem.flow for problem in problems if problem.stops}
    held = stopped - {problem.flow for problem in problems if problem.stops and not problem.is_right}
    return frozenset(held) if len(stopped) < len(config.flows) else frozenset()


async def _judge(
    config: MirrorConfig,
    present: Sequence[FlowConfig],
    flows: Sequence[FlowPreview],
    clients: Mapping[str, ClusterClient],
    metadata: Mapping[str, Metadata],
) -> tuple[list[Problem], dict[FlowName, list[str]]]:
    """Return problems (two aliases of one cluster, topics that cannot be created), and doubts by flow."""
    shared = SharedClusters(config, present, metadata)
    problems = [*shared.problems({one.flow: one.copies for one in flows})]
    doubts: dict[FlowName, list[str]] = {one.flow: list(shared.doubts(one.flow)) for one in flows}
    misled = {problem.flow for problem in problems}
    for flow, previewed in zip(present, flows, strict=True):
        if flow.name in misled:
            continue  # its topics would be judged on the wrong cluster
        check = CreationCheck(config, flow, clients, metadata)
        problems += await check.problems(previewed.copies)
        doubts[flow.name] += [*check.doubts, *await quota_doubts(config, flow, clients)]
        doubts[flow.name] += await distance_doubts(flow, clients)
    return problems, doubts


async def _judge_alone(
    config: MirrorConfig, clients: Mapping[str, ClusterClient], metadata: Mapping[str, Metadata]
) -> list[Problem]:
    """Return the problems on clusters that answer, for flows whose other cluster is unreachable."""
    found: list[Problem] = []
    for flow in config.flows:
        if len(metadata.keys() & set(flow.name)) == 1:
            found += await CreationCheck(config, flow, clients, metadata).problems_while_away()
    return found


def _not_ready(
    config: MirrorConfig, absent: Mapping[str, BrokerUnreachable], problems: Sequence[Problem]
) -> MirrorError:
    """Make one error of all problems; if one absent cluster is the only problem, return its own error."""
    if len(absent) == 1 and not problems:
        return next(iter(absent.values()))
    away = [
        str(why) if isinstance(why, ClusterAway) else at_cluster(config, alias, str(why), REACHABLE)
        for alias, why in sorted(absent.items())
    ]
    return NotReady(*away, *dict.fromkeys(problem.text for problem in problems))


async def _idle_groups(client: ClusterClient, flow: FlowConfig, places: Places) -> tuple[ConfigWarning, ...]:
    groups = await source_groups(client, flow, places)
    return () if groups is None else tuple(idle_groups(flow, groups, places))


def _unreachable(flow: FlowPreview, metadata: dict[str, Metadata], away: dict[str, dict[int, str]]) -> Iterator[str]:
    """Say which brokers of a flow cannot be reached, why, and how many of its partitions they lead."""
    names = {
        flow.flow.source: [one.source for one in flow.topics],
        flow.flow.target: [one.target for one in flow.topics],
    }
    for alias, topics in names.items():
        described = [metadata[alias].topics[topic] for topic in topics if topic in metadata[alias].topics]
        for node, why in away[alias].items():
            led = sum(one.leader == node for topic in described for one in topic.partitions.values())
            yield (
                f"broker {node} of cluster {alias!r} cannot be reached from here: {why}; {counted(led, 'partition')} of"
                " this flow that it leads, and consumer groups that it coordinates, wait for it; its"
                " advertised.listeners must be reachable from every machine that copies"
            )


async def _unfenced(
    config: MirrorConfig, flow: FlowConfig, client: ClusterClient, problems: list[Problem]
) -> tuple[str, ...]:
    """Return the missing rights on transactional ids; add a problem if the flow cannot run without them."""
    asked = f"raymirror.{flow.name}.check"
    try:
        missing = await missing_rights(client, asked)
    except ConnectionLost:  # the broker is shutting down: nothing is known
        return ()
    if missing and flow.commit_s:
        code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        where = f"{' and '.join(missing)} on transactional id {asked} on cluster {flow.name.target!r}"
        wrong = f"{where}: {error_name(code)} ({code})"
        text = at_cluster(config, flow.name.target, wrong, f"exactly-once mode needs it: {GRANT}")
        problems.append(Problem(flow.name, text, stops=True, is_right=True))
    return missing


async def _unread_expiry(client: ClusterClient) -> tuple[int, ...]:
    expiries = await producer_expiries_s(client)
    return tuple(sorted(node for node, expiry_s in expiries.items() if expiry_s is None))


async def _polled(client: ClusterClient, flow: FlowConfig, source: Metadata) -> str:
    """Return why groups are polled although commits should be read; empty if commits can be read, or do not exist."""
    groups, described = flow.groups, source.topics.get(COMMITS_TOPIC)
    asked = groups.on_commit and (groups.checkpoints or groups.commits)
    if not asked or described is None or not described.partitions:
        return ""
    first, cluster = TopicPartition(COMMITS_TOPIC, 0), KafkaCluster(client)
    try:
        end = (await cluster.offsets([first], LATEST))[first]
        async for _ in cluster.read_log(first, end, end + 1, committed=False):
            break
    except KafkaRefusal as refusal:
        return str(refusal)
    except (BrokerUnreachable, ConnectionLost):
        return ""  # the leader of the partition is reported as unreachable
    return ""


def preview_flow(flow: FlowConfig, metadata: dict[str, Metadata], places: Places) -> FlowPreview:
    """Return what a flow would copy, given the metadata of its two clusters."""
    source, target = metadata[flow.name.source].topics, metadata[flow.name.target].topics
    wanted = sorted(topic for topic in source if flow.selection.wants(topic))
    topics = []
    for topic in wanted:
        name = flow.naming.remote_topic(flow.name.source, topic)
        partitions = len(source[topic].partitions)
        topics.append(TopicPreview(source=topic, target=name, partitions=partitions, exists=name in target))
    left_out, idle = len(source) - len(wanted), tuple(idle_topics(flow, sorted(source), places))
    return FlowPreview(flow=flow.name, topics=tuple(topics), left_out=left_out, idle=idle)
