"""`raymirror check` on real brokers: aliases of one cluster, and every topic that `run` would create."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.demo.topics import topic_names
from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.base.errors import SameCluster
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.security import HandshakeOptions
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import TopicFailed
from engine.core.identity.same_cluster import ClusterFacts, Sameness, judge
from engine.flow.topic_logs.last_known import LastKnown
from engine.kafka.admin.log_dirs import room, sizes
from engine.kafka.admin.sameness import facts_of
from engine.kafka.client.cluster import ClusterClient
from engine.services.config_service import config_sync
from engine.services.dr.failover import Failover
from engine.services.target_view import TargetView
from engine.services.topic_service import TopicService
from engine.services.translate import GroupTranslator
from policies.model import TopicPartition
from tests.harness.admin import create_topics, delete_topic
from tests.harness.load import numbered, produce
from tests.integration.test_check_command import ask

pytestmark = pytest.mark.integration

IDENTITY = "replication.policy.class = IdentityReplicationPolicy"


def text(clusters: dict[str, EmbeddedCluster], *lines: str) -> str:
    addresses = [f"{alias}.bootstrap.servers = {cluster.bootstrap_servers}" for alias, cluster in clusters.items()]
    replicas = [
        f"{what}replication.factor = 1"
        for what in ("", "offset.storage.", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
    ]
    return "\n".join([f"clusters = {', '.join(clusters)}", *addresses, *replicas, *lines, ""])


def write(folder: Path, clusters: dict[str, EmbeddedCluster], *lines: str) -> str:
    path = folder / "mm2.properties"
    path.write_text(text(clusters, *lines))
    return str(path)


def names(cluster: EmbeddedCluster) -> set[str]:
    return asyncio.run(topic_names(cluster.bootstrap_servers))


def test_both_aliases_of_a_flow_lead_to_one_cluster(source_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    asyncio.run(create_topics(source_cluster, {"twice-named": 1}))
    before = names(source_cluster)
    clusters = {"left": source_cluster, "right": source_cluster}
    lines = ("left->right.enabled = true", "topics = twice-named", IDENTITY)
    config = write(tmp_path, clusters, *lines)
    for command in ("check", "run"):
        done = ask(tmp_path, command, config)
        assert done.returncode == 2, done.stdout
        assert f"{config}:3: right.bootstrap.servers: " in done.stderr
        assert "lead to one cluster" in done.stderr
        assert "raymirror.same.cluster = allow" in done.stderr
    by_prefix = write(tmp_path, clusters, "left->right.enabled = true", "topics = twice-named")
    for command in ("plan", "apply"):
        done = ask(tmp_path, command, by_prefix)
        assert (done.returncode, "lead to one cluster" in done.stderr) == (2, True), done.stdout + done.stderr
    assert names(source_cluster) == before


def test_a_cluster_that_is_away_hides_nothing_of_the_other(source_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    both = ("left->right.enabled = true", "right->left.enabled = true", "right.bootstrap.servers = 127.0.0.1:1")
    config = Path(write(tmp_path, {"left": source_cluster}, *both))
    said = config.read_text().replace("clusters = left", "clusters = left, right")
    said = said.replace("\nreplication.factor = 1", "\nreplication.factor = 7")
    config.write_text(
        said.replace("\noffset.storage.replication.factor = 1", "\noffset.storage.replication.factor = 5")
    )
    before = names(source_cluster)
    done = ask(tmp_path, "check", str(config))
    assert done.returncode == 2, done.stdout
    lines = done.stderr.splitlines()
    assert lines[0].endswith("3 problems"), done.stderr
    assert "right.bootstrap.servers: no broker of cluster 'right' answers" in lines[1]
    assert any(
        "offset.storage.replication.factor: 5 replicas of topics mm2-offsets.right.internal" in one for one in lines
    )
    assert any(
        "replication.factor: 7 replicas of every copy on cluster 'left'; the cluster has" in one for one in lines
    )
    assert names(source_cluster) == before


def test_mistakes_of_the_file_do_not_hide_what_clusters_say(source_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    asyncio.run(create_topics(source_cluster, {"beside-mistakes": 1}))
    other = ("right.bootstrap.servers = 127.0.0.1:1", "left->right.enabled = true", "topics = matches-nothing")
    wrong = ("left->right.topcis = x", "tasks.max = two")
    config = Path(write(tmp_path, {"left": source_cluster}, *other, *wrong))
    config.write_text(config.read_text().replace("clusters = left", "clusters = left, right"))
    done = ask(tmp_path, "check", str(config))
    assert done.returncode == 2, done.stdout
    assert "raymirror check: 3 problems" in done.stderr
    assert f"{config}:11: left->right.topcis: no such key" in done.stderr
    assert f"{config}:12: tasks.max: 'two' is not a number" in done.stderr
    assert f"{config}:8: right.bootstrap.servers: no broker of cluster 'right' answers" in done.stderr
    assert "line 10: topics: pattern 'matches-nothing' matches no topic of cluster 'left'" in done.stderr


def test_a_controller_s_port_is_named_as_one(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    port = target_cluster.brokers[0].address.controller_port
    other = (f"right.bootstrap.servers = 127.0.0.1:{port}", "left->right.enabled = true", "topics = any")
    config = Path(write(tmp_path, {"left": source_cluster}, *other))
    config.write_text(config.read_text().replace("clusters = left", "clusters = left, right"))
    for command in ("check", "run"):
        done = ask(tmp_path, command, str(config))
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr
        assert (
            f"{config}:8: right.bootstrap.servers: no broker of cluster 'right' accepts raymirror: 127.0.0.1:{port}"
            " answers, but is no Kafka broker: it offers no Metadata request (a KRaft controller's port?"
        ) in done.stderr


def test_a_flow_within_one_cluster_is_allowed_by_name_but_not_in_a_loop(
    source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"beside-itself": 1}))
    clusters = {"left": source_cluster, "right": source_cluster}
    lines = ("left->right.enabled = true", "left->right.raymirror.same.cluster = allow")
    done = ask(tmp_path, "check", write(tmp_path, clusters, *lines, "topics = .*beside-itself"))
    assert done.returncode == 2, done.stdout
    assert "'left.beside-itself' would be copied to 'left.left.beside-itself'" in done.stderr
    assert "heartbeats.replication.enabled = false" in done.stderr
    calm = ("topics = beside-itself", "heartbeats.replication.enabled = false")
    done = ask(tmp_path, "check", write(tmp_path, clusters, *lines, *calm))
    assert done.returncode == 0, done.stderr
    assert "left.beside-itself" in done.stdout


def test_a_way_back_that_an_alias_hides(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"hidden-way": 1}))
    clusters = {"home": source_cluster, "away": target_cluster, "house": source_cluster}
    flows = ("home->away.enabled = true", "away->house.enabled = true", "topics = .*hidden-way")
    done = ask(tmp_path, "check", write(tmp_path, clusters, *flows))
    assert done.returncode == 2, done.stdout
    assert "'home' and 'house' lead to one cluster" in done.stderr
    assert "home -> away -> house" in done.stderr


async def test_discovery_makes_nothing_where_both_clusters_are_one(target_cluster: EmbeddedCluster) -> None:
    """Also without a check before: the cluster was away then, or the address leads elsewhere since."""
    await create_topics(target_cluster, {"found-out-later": 1})
    before = await topic_names(target_cluster.bootstrap_servers)
    flow = ("left->right.enabled = true", "topics = found-out-later", IDENTITY)
    keeper = TopicService(*_config({"left": target_cluster, "right": target_cluster}, *flow))
    try:
        await keeper.open()
        with pytest.raises(SameCluster, match="lead to one cluster"):
            await keeper.step()
    finally:
        await keeper.close()
    assert await topic_names(target_cluster.bootstrap_servers) == before


async def test_commands_that_work_without_a_mirror_refuse_one_cluster_under_two_aliases(
    target_cluster: EmbeddedCluster,
) -> None:
    await create_topics(target_cluster, {"asked-of-one": 1})
    before = await topic_names(target_cluster.bootstrap_servers)
    flow = ("left->right.enabled = true", "topics = asked-of-one")
    config, settings = _config({"left": target_cluster, "right": target_cluster}, *flow)
    for asked in (
        config_sync(config, settings, "raymirror-test"),  # plan, apply
        GroupTranslator(config, settings, "billing"),  # translate
        Failover(config, settings),
    ):
        with pytest.raises(SameCluster, match="'left' and 'right' lead to one cluster"):
            async with asked:
                pytest.fail(f"{type(asked).__name__} takes one cluster for two")
    async with TargetView(config, settings) as view:  # lag, while no mirror runs
        with pytest.raises(SameCluster, match="lead to one cluster"):
            await view.ends(LastKnown(lanes=(), unread={}))
    assert await topic_names(target_cluster.bootstrap_servers) == before


def _config(clusters: dict[str, EmbeddedCluster], *lines: str) -> tuple[MirrorConfig, FlowConfig]:
    config = read_config(parse_properties(text(clusters, *lines), "mm2.properties"))
    return config, config.flows[0]


async def test_two_clusters_of_one_id_are_told_apart_by_the_ids_of_their_topics(
    target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """Some images ship a constant cluster id: such a pair is copied as before."""
    twin = EmbeddedCluster("twin", tmp_path / "twin")
    twin.brokers[0]._cluster_id = twin.cluster_id = target_cluster.cluster_id
    await asyncio.to_thread(twin.start)
    try:
        for cluster in (twin, target_cluster):
            await create_topics(cluster, {"in-both": 1})
        found = [await _facts(cluster) for cluster in (twin, target_cluster)]
        assert found[0].cluster_id == found[1].cluster_id
        assert judge(*found).sameness is Sameness.TWO
        await delete_topic(twin, "in-both")
        verdict = judge(await _facts(twin), found[1])
        assert verdict.sameness is Sameness.UNKNOWN
    finally:
        await asyncio.to_thread(twin.stop)


@pytest.mark.full
async def test_a_cluster_that_was_made_of_copied_disks_is_another_one(tmp_path: Path) -> None:
    """Same cluster id, same topic ids; but its leaders were elected again."""
    one, other = EmbeddedCluster("one", tmp_path / "one"), EmbeddedCluster("other", tmp_path / "other")
    await asyncio.to_thread(one.start)
    try:
        await create_topics(one, {"restored": 3})
        await asyncio.to_thread(one.stop)
        other.brokers[0]._cluster_id = other.cluster_id = one.cluster_id
        shutil.copytree(one.brokers[0].data_folder, other.brokers[0].data_folder)
        await asyncio.to_thread(start_clusters, one, other)
        before, after = await _facts(one), await _facts(other)
        assert before.topics["restored"].id == after.topics["restored"].id
        # Both were started once since: nothing tells them apart, and `raymirror.same.cluster = ignore` is for that.
        alike = judge(before, after)
        assert (alike.sameness, alike.by_address) == (Sameness.ONE, False)
        await asyncio.to_thread(other.stop)
        await asyncio.to_thread(other.start)
        assert judge(before, await _facts(other)).sameness is Sameness.UNKNOWN
    finally:
        for cluster in (one, other):
            await asyncio.to_thread(cluster.stop)


async def test_a_flow_that_may_stay_within_one_cluster_leaves_out_what_would_feed_it(
    target_cluster: EmbeddedCluster,
) -> None:
    await create_topics(target_cluster, {"fed-a": 1, "within.fed-b": 1})
    flow = (
        "within->again.enabled = true",
        "within->again.raymirror.same.cluster = allow",
        "offset.storage.partitions = 1",
    )
    keeper = TopicService(
        *_config({"within": target_cluster, "again": target_cluster}, *flow, "topics = fed-a, .*fed-b")
    )
    try:
        await keeper.open()
        events = list((await keeper.step()).events)
        found = await keeper.step()
    finally:
        await keeper.close()
    assert {lane.source.topic for lane in found.lanes} <= {"fed-a", "heartbeats"}
    (left_out,) = [event for event in [*events, *found.events] if getattr(event, "topic", "") == "within.fed-b"]
    assert isinstance(left_out, TopicFailed)
    assert "would be copied too, and so on" in left_out.what


@asynccontextmanager
async def _client(cluster: EmbeddedCluster) -> AsyncIterator[ClusterClient]:
    host, port = cluster.bootstrap_servers.split(":")
    client = ClusterClient("any", [(host, int(port))], HandshakeOptions(client_id="test"))
    try:
        await client.open()
        yield client
    finally:
        await client.close()


async def _facts(cluster: EmbeddedCluster) -> ClusterFacts:
    async with _client(cluster) as client:
        return facts_of(await client.metadata(None))


def test_all_that_is_wrong_comes_at_once(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"at-once": 1}))
    lines = (
        "clusters = here, there, nowhere",
        f"here.bootstrap.servers = {source_cluster.bootstrap_servers}",
        f"there.bootstrap.servers = {target_cluster.bootstrap_servers}",
        "nowhere.bootstrap.servers = 127.0.0.1:1",
        "here->there.enabled = true",
        "here->nowhere.enabled = true",
        "topics = at-once",
        "replication.factor = 3",
        "offset.storage.replication.factor = 2",
    )
    path = tmp_path / "mm2.properties"
    path.write_text("\n".join(lines))
    done = ask(tmp_path, "check", str(path))
    assert done.returncode == 2, done.stdout
    assert "raymirror check: " in done.stderr
    assert "3 problems" in done.stderr
    assert f"{path}:4: nowhere.bootstrap.servers: no broker of cluster 'nowhere' answers" in done.stderr
    assert f"{path}:8: replication.factor: 3 replicas of topic here.at-once" in done.stderr
    assert f"{path}:9: offset.storage.replication.factor: 2 replicas of topics mm2-offsets.here" in done.stderr


async def test_brokers_tell_of_their_disks(source_cluster: EmbeddedCluster) -> None:
    await create_topics(source_cluster, {"on-disk": 2})
    await produce(source_cluster, "on-disk", 0, numbered(100))
    async with _client(source_cluster) as client:
        assert (await room(client) or 0) > 0
        found = await sizes(client, {"on-disk": 2, "not-there": 1})
    assert found.keys() == {TopicPartition("on-disk", 0), TopicPartition("on-disk", 1)}
    assert found[TopicPartition("on-disk", 0)] > 1_000
    assert found[TopicPartition("on-disk", 1)] == 0


def test_every_topic_that_run_would_create_is_tried(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"tried-a": 1, "tried-b": 2}))
    before = names(source_cluster), names(target_cluster)
    lines = [
        "tried->goal.enabled = true",
        "tried->goal.topics = tried-.*",
        "tried->goal.replication.factor = 4",
        "tried->goal.checkpoints.topic.replication.factor = 5",
        "tried->goal.offset-syncs.topic.replication.factor = 6",
    ]
    done = ask(tmp_path, "check", write(tmp_path, {"tried": source_cluster, "goal": target_cluster}, *lines))
    assert done.returncode == 2, done.stdout
    for line, key, count in (
        (11, "tried->goal.replication.factor", 4),
        (12, "tried->goal.checkpoints.topic.replication.factor", 5),
        (13, "tried->goal.offset-syncs.topic.replication.factor", 6),
    ):
        assert f"mm2.properties:{line}: {key}: {count} replicas" in done.stderr, done.stderr
    assert "InvalidReplicationFactor" in done.stderr
    assert "Create" not in done.stderr, "no word of an ACL"
    assert (names(source_cluster), names(target_cluster)) == before


def test_quotas_that_limit_a_flow_are_told(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster, {"under-quota": 1}))
    tool, entity = "kafka.admin.ConfigCommand", ("--entity-type", "clients", "--entity-default")
    alter = ("--bootstrap-server", target_cluster.bootstrap_servers, "--alter", *entity)
    clusters = {"left": source_cluster, "right": target_cluster}
    config = write(tmp_path, clusters, "left->right.enabled = true", "topics = under-quota")
    limits = {"producer_byte_rate": 2**30, "request_percentage": 400, "controller_mutation_rate": 5000}
    target_cluster.tool(tool, *alter, "--add-config", ",".join(f"{name}={value}" for name, value in limits.items()))
    try:
        done = ask(tmp_path, "check", config)
    finally:
        target_cluster.tool(tool, *alter, "--delete-config", ",".join(limits))
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    by = "of the default client-id"
    assert f"cluster 'right' limits raymirror's writes to 1,024.0 MiB/s per broker (producer_byte_rate {by})" in told
    assert f"to 400 % of a handler thread per broker (request_percentage {by})" in told
    assert f"limits raymirror's creation of partitions to 5000 a second (controller_mutation_rate {by})" in told
    assert "cluster 'left' limits" not in told
    assert "limits raymirror's" not in ask(tmp_path, "check", config).stdout
