"""Every topic that `run` would create: the objections of clusters, in lines that name the setting to change."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from engine.base.errors import KafkaRefusal
from engine.checks import creation_check
from engine.checks.creation_check import CreationCheck, Problem, own_topics
from engine.config.settings import MirrorConfig
from engine.kafka.admin.trials import NewTopic, Refused
from engine.kafka.client.metadata import BrokerAddress, Metadata, PartitionMeta, TopicMeta
from engine.kafka.protocol.admin_codec import Described
from policies.grants.rights import Grantee
from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry
from tests.unit.engine.config_files import flow, mirror

OWN = {
    "mm2-offsets.A.internal": 25,
    "raymirror-map.A.internal": 25,
    "raymirror-state.A.internal": 1,
    "raymirror-events.A.internal": 1,
}


class Stage:
    """Two clusters; `refused` and `unread` say what they have against topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics: dict[str, dict[str, int]] = {"A": {}, "B": {}}
        self.brokers = {"A": 1, "B": 2}
        self.refused: dict[str, Refused] = {}
        self.unread: dict[str, int] = {}
        self.policies: dict[str, str] = {}
        self.min_insync: dict[int, dict[str, str]] = {}
        self.tried: dict[str, NewTopic] = {}
        self.grown: dict[str, int] = {}
        self.lack = ""
        self.to_copy: list[object] = []
        self.check: CreationCheck
        stage = self

        async def try_creating(client: Any, topics: Sequence[NewTopic]) -> dict[str, Refused]:
            stage.tried |= {one.name if client.alias == "B" else f"{one.name} on A": one for one in topics}
            return {one.name: stage.refused[one.name] for one in topics if one.name in stage.refused}

        async def try_growing(_client: object, partitions: Mapping[str, int]) -> dict[str, Refused]:
            stage.grown |= partitions
            return {name: stage.refused[name] for name in partitions if name in stage.refused}

        async def check_policy(client: Any, topic: str, _configs: dict[str, str]) -> None:
            if topic in stage.policies:
                where = f"topic {topic} on cluster {client.alias!r}"
                raise KafkaRefusal(where, 40, stage.policies[topic], "set it on the topic")

        async def broker_configs(_client: object, names: Sequence[str]) -> dict[int, dict[str, str]]:
            assert list(names) == ["min.insync.replicas"]
            return stage.min_insync

        async def lack_of_room(*asked: object) -> str:
            stage.to_copy.append(asked[3])
            return stage.lack

        class ConfigsOf:
            def __init__(self, client: Any) -> None:
                assert client.alias == "A"

            async def describe(self, topics: Mapping[str, object]) -> list[Described]:
                entry = ConfigEntry("1000", TOPIC_OVERRIDE, False, False)
                return [Described(one, {"retention.ms": entry}, stage.unread.get(one, 0), "") for one in topics]

        for name, fake in locals().items():
            if name not in ("self", "stage", "monkeypatch"):
                monkeypatch.setattr(creation_check, name, fake)

    async def problems(self, config: MirrorConfig, *copied: str) -> tuple[Problem, ...]:
        def described(partitions: int) -> TopicMeta:
            return TopicMeta(0, UUID(int=1), False, {one: PartitionMeta(1, 0, (1,)) for one in range(partitions)})

        metadata = {
            alias: Metadata(
                alias,
                1,
                {number: BrokerAddress(alias, number, "") for number in range(self.brokers[alias])},
                {name: described(partitions) for name, partitions in topics.items()},
            )
            for alias, topics in self.topics.items()
        }
        clients: Any = {alias: SimpleNamespace(alias=alias, grantee=Grantee(alias)) for alias in metadata}
        self.check = CreationCheck(config, config.flows[0], clients, metadata)
        return await self.check.problems({topic: f"A.{topic}" for topic in copied})


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def texts(problems: Sequence[Problem]) -> list[str]:
    return [one.text for one in problems]


async def test_the_quarantine_topic_is_tried_if_refused_records_are_left_out(stage: Stage) -> None:
    stage.topics["A"] = {"t": 1}
    assert await stage.problems(mirror("raymirror.refused = t@quarantine\n"), "t") == ()
    made = stage.tried["raymirror-quarantine.A.internal"]
    assert (made.partitions, made.configs["cleanup.policy"]) == (3, "compact")


async def test_every_topic_is_tried_as_run_would_make_it(stage: Stage) -> None:
    stage.topics = {"A": {"t": 3, "u": 2, "v": 1}, "B": {"A.u": 1, "A.v": 1}}
    lines = "replication.factor = 2\nraymirror.progress.interval.seconds = 5\n"
    assert await stage.problems(mirror(lines), "t", "u", "v") == ()
    made = {name: (one.partitions, one.replicas) for name, one in stage.tried.items()}
    assert made == {
        **{name: (partitions, 3) for name, partitions in OWN.items()},
        "raymirror-progress.A.internal": (1, 3),
        "raymirror-lag.A.internal": (1, 3),
        "heartbeats": (1, 2),
        "A.checkpoints.internal": (1, 2),
        "heartbeats on A": (1, 1),  # of the way back, which is no flow and has heartbeats as in MM2
        "mm2-offset-syncs.B.internal on A": (1, 1),
        "A.t": (3, 2),
    }
    assert stage.tried["A.t"].configs == {"retention.ms": "1000"}
    assert stage.tried["mm2-offsets.A.internal"].configs["cleanup.policy"] == "compact"
    assert stage.grown == {"A.u": 2}
    assert stage.to_copy == [{"t": 3}]
    assert stage.check.doubts == []


def test_what_is_switched_off_is_not_made() -> None:
    off = "emit.heartbeats.enabled = false\nemit.checkpoints.enabled = false\nemit.offset-syncs.enabled = false\n"
    assert [one.topic.name for one in own_topics(flow(off), {"A": 1, "B": 1})] == list(OWN)


async def test_too_many_replicas_name_the_setting_and_no_right(stage: Stage) -> None:
    stage.topics["A"] = {"t": 1, "u": 1, "v": 1, "w": 1}
    too_many = Refused(38, "InvalidReplicationFactor: only 2.")
    stage.refused = dict.fromkeys((*OWN, "A.t", "A.u", "A.v", "A.w", "A.checkpoints.internal"), too_many)
    lines = "replication.factor = 4\ncheckpoints.topic.replication.factor = 5\n"
    found = await stage.problems(mirror(lines), "t", "u", "v", "w")
    assert texts(found) == [
        (
            "mm2.properties: offset.storage.replication.factor (not set: this is the default): 3 replicas of topics"
            " mm2-offsets.A.internal, raymirror-map.A.internal, raymirror-state.A.internal and 1 more on cluster 'B':"
            " InvalidReplicationFactor: only 2; the cluster has 2 brokers: set 2 or less, or -1 for its default"
        ),
        (
            "mm2.properties:6: checkpoints.topic.replication.factor: 5 replicas of topic A.checkpoints.internal on"
            " cluster 'B': InvalidReplicationFactor: only 2;"
            " the cluster has 2 brokers: set 2 or less, or -1 for its default"
        ),
        (
            "mm2.properties:5: replication.factor: 4 replicas of topics A.t, A.u, A.v and 1 more on cluster 'B':"
            " InvalidReplicationFactor: only 2; the cluster has 2 brokers: set 2 or less, or -1 for its default"
        ),
    ]
    assert [one.stops for one in found] == [True, False, True]


async def test_heartbeats_of_a_pair_that_is_no_flow_have_a_setting_of_their_own(stage: Stage) -> None:
    stage.refused = {"heartbeats": Refused(38, "InvalidReplicationFactor: only 1.")}
    lines = "A->B.heartbeats.topic.replication.factor = 4\nB->A.heartbeats.topic.replication.factor = 5\n"
    there, back = texts(await stage.problems(mirror(lines)))
    assert there.startswith(
        "mm2.properties:5: A->B.heartbeats.topic.replication.factor: 4 replicas of topic heartbeats"
    )
    assert back.startswith("mm2.properties:6: B->A.heartbeats.topic.replication.factor: 5 replicas of topic heartbeats")


async def test_one_copy_of_several_that_is_refused_does_not_stop_the_flow(stage: Stage) -> None:
    stage.topics = {"A": {"t": 1, "u": 1, "g": 3}, "B": {"A.g": 1}}
    stage.refused = {"A.t": Refused(44, "PolicyViolation: no"), "A.g": Refused(37, "InvalidPartitions")}
    policy, grown = await stage.problems(mirror("topics = .*\n"), "t", "u", "g")
    assert policy.text == (
        "mm2.properties:5: topics: creating topic A.t on cluster 'B': PolicyViolation: no; change the settings to"
        " what the create.topic.policy of that cluster allows, or exclude the topics (topics.exclude)"
    )
    assert "mm2.properties:5: topics: adding partitions to topic A.g on cluster 'B': InvalidPartitions" in grown.text
    assert not policy.stops
    assert not grown.stops


async def test_configs_that_a_cluster_does_not_take(stage: Stage) -> None:
    stage.topics["A"] = {"t": 1}
    stage.refused = {
        "A.t": Refused(40, "InvalidConfig: x"),
        "raymirror-events.A.internal": Refused(40, "InvalidConfig"),
    }
    own, copy = texts(await stage.problems(mirror(), "t"))
    assert "offset.storage.replication.factor" in own
    assert copy.startswith("mm2.properties: A->B.config.properties.exclude: creating topic A.t")
    assert "add the config's name to config.properties.exclude" in copy


async def test_a_config_that_the_target_does_not_know_is_told_and_stops_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[str]] = []

    async def try_creating(client: Any, topics: Sequence[NewTopic]) -> dict[str, Refused]:
        copies = [one for one in topics if one.name in ("A.t", "A.u")]
        tried.append([one.name for one in copies])
        unknown = Refused(40, "InvalidConfig: Unknown topic config name: retention.ms")
        return {one.name: unknown for one in copies if one.configs}

    monkeypatch.setattr(creation_check, "try_creating", try_creating)
    stage.topics["A"] = {"t": 1, "u": 1}
    assert await stage.problems(mirror(), "t", "u") == ()
    (doubt,) = stage.check.doubts
    assert doubt == (
        "mm2.properties: A->B.config.properties.exclude: cluster 'B' does not know config retention.ms: A.t and such"
        " copies are created without it; upgrade the target, or add retention.ms to config.properties.exclude"
    )
    assert [names for names in tried if names] == [["A.t", "A.u"], ["A.t", "A.u"]], "the same without the config"


async def test_missing_rights_are_told_once_for_a_cluster_and_never_of_topics_of_mm2(stage: Stage) -> None:
    stage.topics = {"A": {"t": 1, "u": 2, "secret": 1}, "B": {"A.u": 1}}
    denied = Refused(29, "TopicAuthorizationFailed")
    stage.refused = dict.fromkeys(("mm2-offsets.A.internal", "A.t", "A.u", "heartbeats"), denied)
    stage.unread = {"secret": 29}
    unread, create, grow = await stage.problems(mirror(), "t", "u", "secret")
    assert unread.text.startswith(
        "mm2.properties:2: A.bootstrap.servers: configs of topic secret on cluster 'A' cannot"
    )
    assert create.text == (
        "mm2.properties:3: B.bootstrap.servers: cluster 'B' does not let raymirror create topics"
        " mm2-offsets.A.internal, A.t: TopicAuthorizationFailed; grant Create on the cluster or on these topics"
        " to raymirror's user"
    )
    assert "add partitions to topic A.u" in grow.text
    assert "grant Alter on these topics" in grow.text
    assert [unread.stops, create.stops, grow.stops] == [False, True, False]


async def test_fewer_replicas_than_must_be_in_sync_take_no_record(stage: Stage) -> None:
    stage.topics["A"] = {"t": 1}
    stage.min_insync = {1: {"min.insync.replicas": "1"}, 2: {"min.insync.replicas": "2"}, 3: {}}
    lines = "replication.factor = 1\noffset-syncs.topic.location = target\nB->A.emit.heartbeats.enabled = false\n"
    (problem,) = await stage.problems(mirror(lines), "t")
    assert problem.text == (
        "mm2.properties:5: replication.factor: 1 replica of topic A.t on cluster 'B': the cluster has"
        " min.insync.replicas = 2; the cluster would refuse every write: set 2 or more"
    )


async def test_topics_of_ours_that_are_there_are_judged_as_run_does(stage: Stage) -> None:
    stage.topics["B"] = {**OWN, "mm2-offsets.A.internal": 5, "raymirror-state.A.internal": 2, "heartbeats": 7}
    stage.policies = {"raymirror-events.A.internal": "has cleanup.policy=delete"}
    positions, state, events = await stage.problems(mirror())
    assert "5 partitions, but needs 25; set offset.storage.partitions = 5" in positions.text
    assert "delete it, or create it again with 1 partition" in state.text
    assert "has cleanup.policy=delete; set it on the topic" in events.text
    assert [positions.stops, state.stops, events.stops] == [True, True, False]


async def test_what_cannot_be_judged_now_is_no_problem(stage: Stage) -> None:
    stage.topics["A"] = {"t": 1}
    stage.refused = {"A.t": Refused(89, "ThrottlingQuotaExceeded")}
    stage.lack = "no room"
    assert await stage.problems(mirror(), "t") == ()
    assert stage.check.doubts == [
        "no room",
        "cluster 'B' cannot say now whether topic A.t could be created: ThrottlingQuotaExceeded",
    ]
