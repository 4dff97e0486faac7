"""`raymirror run` on real clusters, and `status`, `pause`, `resume`, `stop` from other processes.

The tests are steps of one story and run in order.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from actors.demo.reader import read_topics
from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from tests.harness.live import LiveMirror
from tests.harness.shell import Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]

FLOW = "source->target"


def produce(cluster: EmbeddedCluster, topic: str, count: int, first: int = 0) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type="lz4")
        await producer.start()
        try:
            for number in range(first, first + count):
                await producer.send(topic, b"record %d" % number, key=b"%d" % number, partition=number % 2)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(send())


def same(source: EmbeddedCluster, target: EmbeddedCluster, topic: str) -> bool:
    ours = read_topics(source.bootstrap_servers, [topic])
    theirs = read_topics(target.bootstrap_servers, [f"source.{topic}"])
    return {number: digest for (_, number), digest in ours.items()} == {
        number: digest for (_, number), digest in theirs.items()
    }


class Story:
    """One running mirror of the topics told-a and told-b, on a Ray of its own."""

    def __init__(self, shell: Shell, config: Path) -> None:
        self.shell, self.config = shell, config
        self.live = self.run()

    def run(self) -> LiveMirror:
        """`raymirror run`."""
        self.live = LiveMirror(self.shell.folder, self.config, env=self.shell.env)
        return self.live

    @property
    def flow(self) -> dict[str, Any]:
        """How its flow stands."""
        return self.live.flow(FLOW)


@pytest.fixture(scope="module")
def story(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("run")
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"told-a": 2, "told-b": 2}))
    produce(source_cluster, "told-a", 1000)
    produce(source_cluster, "told-b", 1000)
    made = Story(Shell(folder), write_config(folder, source_cluster, target_cluster, "told-.*"))
    try:
        yield made
    finally:
        made.live.close()


def test_it_copies_what_is_there(
    story: Story, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    story.live.until_whole({FLOW: 2000})
    assert story.live.status["phase"] == "running"
    assert story.flow["topics"] == 2
    assert same(source_cluster, target_cluster, "told-a")
    assert same(source_cluster, target_cluster, "told-b")


def test_a_second_run_of_the_same_mirror_is_refused(story: Story) -> None:
    done = story.shell("run", str(story.config))
    assert done.returncode == 2
    assert "already runs" in done.stderr


def test_a_paused_topic_stands_still_while_the_other_goes_on(
    story: Story, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    paused = story.shell("pause", "source->target", "--topics", "told-a")
    assert paused.returncode == 0, paused.stderr
    now = story.shell.status()
    assert [row["state"] for row in now["lanes"] if row["lane"][0] == "told-a"] == ["paused", "paused"]
    assert now["flows"][0]["paused_topics"] == ["told-a"]
    produce(source_cluster, "told-a", 500, first=1000)
    produce(source_cluster, "told-b", 500, first=1000)

    story.live.until(lambda: story.flow["records"] == 2500, "the other topic goes on")
    lanes = story.shell.status()["lanes"]
    at = {name: sum(row["source_next"] for row in lanes if row["lane"][0] == name) for name in ("told-a", "told-b")}
    assert at == {"told-a": 1000, "told-b": 1500}
    assert not same(source_cluster, target_cluster, "told-a")
    assert same(source_cluster, target_cluster, "told-b")


def test_resume_goes_on_where_it_was(
    story: Story, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    assert story.shell("resume", "source->target", "--topics", "told-a").returncode == 0
    story.live.until_whole({FLOW: 3000})
    assert same(source_cluster, target_cluster, "told-a")


def test_a_topic_that_appears_is_copied(
    story: Story, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"told-c": 2}))
    produce(source_cluster, "told-c", 100)
    story.live.until_whole({FLOW: 3100})
    assert same(source_cluster, target_cluster, "told-c")


def test_wrong_names_are_one_line_and_exit_code_2(story: Story) -> None:
    for words, says in ((("pause", "a->b"), "source->target"), (("pause", "source->target", "--topics", "x"), "'x'")):
        done = story.shell(*words)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_sigterm_drains_and_a_new_start_goes_on_without_duplicates(
    story: Story, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    story.live.end()
    gone = story.shell("status")
    assert gone.returncode == 3
    assert len(gone.stderr.splitlines()) == 1
    assert "no running mirror" in gone.stderr
    for topic, first in (("told-a", 1500), ("told-b", 1500), ("told-c", 100)):
        produce(source_cluster, topic, 200, first=first)
    story.run().until_whole({FLOW: 600})
    assert all(same(source_cluster, target_cluster, topic) for topic in ("told-a", "told-b", "told-c"))


def test_stop_ends_it_in_order(story: Story) -> None:
    done = story.shell("stop")
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
    assert story.live.process.wait(30) == 0, story.live.describe()
    ended = story.shell("status")
    assert ended.returncode == 3
    assert re.search(rf"{FLOW} stopped, 3 topics, \d partitions, lag 0 at 2", ended.stderr), ended.stderr
    assert "start it again with: raymirror run" in ended.stderr
    for untrue in ("unknown", "raymirror resume", "raymirror lag", "/s", " 0 stopped"):
        assert untrue not in ended.stderr, ended.stderr
