"""A target that denies transactional ids: stale owners are detected, not refused; that is reported, nothing is lost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cli.main import main
from actors.demo.topics import topic_names
from deploy.local.cluster import EmbeddedCluster
from engine.core.events.events import OwnershipLost, Resumed, UnfencedOwnership
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical
from tests.harness.live import write_properties
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, Run

pytestmark = pytest.mark.integration

PARTITIONS = 3
_ACLS = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def strict_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster on which all is allowed but to write under a transactional id, and to read some ids and configs."""
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:nobody-here",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedCluster("strict", tmp_path_factory.mktemp("strict"), overrides=overrides) as cluster:
        everything = ("--operation", "All", "--cluster", "--topic", "*", "--group", "*", "--transactional-id", "*")
        unseen = ("--transactional-id", "raymirror.unseen->", "--resource-pattern-type", "prefixed")
        for who, what in (
            ("--allow-principal", everything),
            ("--deny-principal", ("--operation", "Write", "--transactional-id", "*")),
            ("--deny-principal", ("--operation", "Describe", *unseen)),
            ("--deny-principal", ("--operation", "DescribeConfigs", "--cluster")),
        ):
            cluster.tool(_ACLS, "--bootstrap-server", cluster.bootstrap_servers, "--add", who, "User:ANONYMOUS", *what)
        yield cluster


async def filled(source: EmbeddedCluster, target: EmbeddedCluster, topic: str) -> tuple[Mirror, str]:
    mirror = Mirror(
        source, target, topic, flush_s=3600.0, unsynced_s=3600.0, epoch_s=3600.0
    )  # what is cut off leaves a tail
    await mirror.open()
    copied = await mirror.topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        await produce(source, topic, partition, numbered(200, size_bytes=200))
    return mirror, copied


def told_of(run: Run) -> set[int]:
    """Return the partitions that are said to have no fence."""
    return {one.lane.partition for one in run.told(UnfencedOwnership)}


@pytest.mark.parametrize("drain", [True, False], ids=["drained", "cut off"])
async def test_run_after_run_without_transactional_ids(
    source_cluster: EmbeddedCluster, strict_cluster: EmbeddedCluster, drain: bool
) -> None:
    topic = f"unfenced-{drain}".lower()
    mirror, copied = await filled(source_cluster, strict_cluster, topic)
    async with mirror.run(drain=drain) as run:
        await run.until(lambda: told_of(run) == set(range(PARTITIONS)), "it is said at start")
        await run.until_copied()
        assert "not authorised for transactional ids" in run.told(UnfencedOwnership)[0].text()
    for partition in range(PARTITIONS):
        await produce(mirror.source, topic, partition, numbered(100, first=200))
    async with mirror.run() as run:
        await run.until_copied()
        assert told_of(run) == set(range(PARTITIONS))
        tails = {one.tail_records for one in run.told(Resumed)}
        assert tails == {0 if drain else 200}
    assert await assert_identical(mirror.source, mirror.target, topic, copied) == PARTITIONS * 300


async def test_a_former_owner_that_is_not_refused_finds_out_by_the_positions(
    source_cluster: EmbeddedCluster, strict_cluster: EmbeddedCluster
) -> None:
    """Its lease is over, so it is held; when it goes on, it looks first, and stands down without having appended."""
    mirror, copied = await filled(source_cluster, strict_cluster, "unfenced-two")
    async with mirror.run(epoch=1, drain=False) as old:
        await old.until_copied()
        old.copier.hold()
        async with mirror.run(epoch=2) as new:
            await new.until(
                lambda: len({one.lane for one in new.told(Resumed)}) == PARTITIONS, "the newer one has the lanes"
            )
            for partition in range(PARTITIONS):
                await produce(mirror.source, "unfenced-two", partition, numbered(100, first=200))
            await new.until_copied()
            old.copier.unhold()
            await old.until(
                lambda: len({one.lane for one in old.told(OwnershipLost)}) == PARTITIONS, "the older one stands down"
            )
            await produce(mirror.source, "unfenced-two", 0, numbered(100, first=300))
            await new.until_copied()
    assert await assert_identical(mirror.source, mirror.target, "unfenced-two", copied) == PARTITIONS * 300 + 100


@pytest.mark.parametrize(
    ("alias", "more", "code", "says"),
    [
        ("seen", "", 0, "cluster 'strict' does not grant raymirror Write on transactional ids"),
        ("unseen", "", 0, "cluster 'strict' does not grant raymirror Write and Describe on transactional ids"),
        ("seen", "strict.exactly.once.source.support = enabled", 2, "exactly-once mode needs it"),
    ],
    ids=["write", "both", "exactly once"],
)
async def test_check_names_what_is_not_granted_and_makes_nothing(
    source_cluster: EmbeddedCluster,
    strict_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    alias: str,
    more: str,
    code: int,
    says: str,
) -> None:
    topic = f"ungranted-{alias}-{code}"
    await create_topics(source_cluster, {topic: 1})
    before = await topic_names(strict_cluster.bootstrap_servers)
    clusters = {alias: source_cluster, "strict": strict_cluster}
    config = write_properties(tmp_path / "mm2.properties", clusters, {f"{alias}->strict": topic})
    config.write_text(f"{config.read_text()}{more}\n")
    assert await asyncio.to_thread(main, ["check", str(config)]) == code
    said = capsys.readouterr()
    (line,) = [line for line in said.err.splitlines() if "transactional id" in line]
    assert says in line
    assert "grant Write and Describe on the transactional ids that begin with 'raymirror'" in line
    expiry = [line for line in said.err.splitlines() if "producer.id.expiration.ms" in line]
    assert len(expiry) == (0 if code else 1)
    assert all("cannot be read from 1 broker of cluster 'strict' (1)" in line for line in expiry)
    assert await topic_names(strict_cluster.bootstrap_servers) == before
