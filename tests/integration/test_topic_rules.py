"""Topics created again and sources with holes on real brokers, with rules that let the copy continue."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiokafka.errors import TopicAlreadyExistsError

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig
from engine.core.events.events import AnyEvent, CopyDeleted, IdentityChanged, SourceGap, TopicFailed, TopicRenewed
from engine.services.runner import options_for
from engine.services.topic_service import TopicService
from tests.conftest import Pair
from tests.harness.admin import create_topics, delete_records, delete_topic
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import Sent, numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

TOPIC = "ruled"
OLD, NEW = numbered(100), numbered(60, first=500)


class Ruled:
    """A mirror of one topic by rules of the file, with 100 records copied."""

    def __init__(self, pair: Pair, alias: str, rules: str) -> None:
        self.config = _config(pair, alias, rules)
        faults = options_for(self.config.flows[0], "test").faults
        self.mirror = Mirror(pair.source, pair.target, alias, faults=faults)
        self.copy = self.mirror.copied(TOPIC)
        self.topic = f"{TOPIC}-{alias}"

    async def begin(self) -> None:
        await self.mirror.open()
        self.copy = await self.mirror.topic(self.topic)
        await create_topics(self.mirror.source, {f"beside-{self.topic}": 1})  # it speaks for the cluster
        await produce(self.mirror.source, self.topic, 0, OLD)
        async with self.mirror.run() as run:
            await run.until_copied()

    async def renew_source(self) -> None:
        await delete_topic(self.mirror.source, self.topic)
        await create_topics(self.mirror.source, {self.topic: 1})
        await produce(self.mirror.source, self.topic, 0, NEW)

    async def renew_target(self) -> None:
        await delete_topic(self.mirror.target, self.copy)
        with suppress(TopicAlreadyExistsError):  # whoever keeps the copies in step may have been faster
            await create_topics(self.mirror.target, {self.copy: 1})
        await produce(self.mirror.source, self.topic, 0, NEW)

    async def assert_copy(self, *expected: Sent) -> None:
        found = (await read_topic(self.mirror.target, self.copy))[0]
        assert [one.value for one in found] == [one.value for one in expected]


def _config(pair: Pair, alias: str, rules: str) -> MirrorConfig:
    text = (
        f"clusters = {alias}, b\n{alias}.bootstrap.servers = {pair.source.bootstrap_servers}\n"
        f"b.bootstrap.servers = {pair.target.bootstrap_servers}\n{alias}->b.enabled = true\n"
        f"{alias}->b.topics = {TOPIC}-{alias}\n{alias}->b.emit.offset-syncs.enabled = false\nreplication.factor = 1\n"
        f"offset.storage.partitions = 2\noffset.storage.replication.factor = 1\n{rules}\n"
    )
    return read_config(parse_properties(text, "mm2.properties"))


@pytest.fixture
async def ruled(request: pytest.FixtureRequest, cluster_pair: Pair) -> Ruled:
    """A mirror by the rules that the test is marked with."""
    alias = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    made = Ruled(cluster_pair, alias, request.param)
    await made.begin()
    return made


def by(rules: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("ruled", [rules], indirect=True, ids=["ruled"])


@asynccontextmanager
async def discovering(ruled: Ruled, told: list[AnyEvent], *, may_delete: bool = True) -> AsyncIterator[None]:
    """Keep the copies in step beside the copier, as the metadata actor does; it has seen the topics once by then.

    One that has not does not know the former topic beside others, and keeps the copy of a new one.
    """
    keeper = TopicService(ruled.config, ruled.config.flows[0])
    keeper.may_delete = lambda: may_delete
    await keeper.open()
    seen = asyncio.Event()

    async def rounds() -> None:
        while True:
            # a topic that is being deleted, a broker that is slow: the next round looks again
            with suppress(ConnectionLost, BrokerUnreachable, KafkaRefusal):
                told.extend((await keeper.step()).events)
                seen.set()
            await asyncio.sleep(0.1)

    task = asyncio.create_task(rounds())
    looking = asyncio.create_task(seen.wait())
    try:
        await asyncio.wait([task, looking], return_when=asyncio.FIRST_COMPLETED)
        yield
        if task.done():
            task.result()
    finally:
        for one in (task, looking):
            one.cancel()
        await asyncio.wait([task, looking])
        await keeper.close()


@by("raymirror.topic.recreated = append")
@pytest.mark.parametrize("running", [True, False], ids=["running", "between runs"])
async def test_append_copies_a_new_source_topic_behind_the_old_copy(ruled: Ruled, running: bool) -> None:
    if not running:
        await ruled.renew_source()
    async with ruled.mirror.run() as run:
        if running:
            await run.until_copied()
            await ruled.renew_source()
        event = await run.until_told(TopicRenewed)
        await run.until_copied()
        assert (event.source_renewed, event.target_renewed) == (True, False)
        assert (event.copied, event.source_offset) == (100, 0)
        assert not run.told(IdentityChanged)
    await ruled.assert_copy(*OLD, *NEW)
    async with ruled.mirror.run() as run:  # told once
        await run.until_copied()
        assert not run.told(TopicRenewed)
    await ruled.assert_copy(*OLD, *NEW)


@by("raymirror.topic.recreated = other@fail, ruled.*@append")
async def test_append_goes_on_in_a_new_copy_at_the_position(ruled: Ruled) -> None:
    async with ruled.mirror.run() as run:
        await run.until_copied()
        await ruled.renew_target()
        event = await run.until_told(TopicRenewed)
        await run.until_copied()
        assert (event.source_renewed, event.target_renewed, event.source_offset) == (False, True, 100)
    await ruled.assert_copy(*NEW)


@by("raymirror.topic.recreated = re-create")
async def test_re_create_deletes_the_copy_of_a_former_topic_and_copies_the_new_one(ruled: Ruled) -> None:
    told: list[AnyEvent] = []
    async with ruled.mirror.run() as run, discovering(ruled, told):
        await run.until_copied()
        await ruled.renew_source()
        event = await run.until_told(TopicRenewed)
        await run.until_copied()
        assert (event.source_renewed, event.target_renewed, event.source_offset) == (True, True, 0)
    deleted = [(one.topic, one.target) for one in told if isinstance(one, CopyDeleted)]
    assert deleted == [(ruled.topic, ruled.copy)]
    assert not [one for one in told if isinstance(one, TopicFailed)]
    assert await assert_identical(ruled.mirror.source, ruled.mirror.target, ruled.topic, ruled.copy) == len(NEW)


@by("raymirror.topic.recreated = re-create")
async def test_re_create_fills_a_new_copy_with_everything_and_deletes_nothing_else(ruled: Ruled) -> None:
    told: list[AnyEvent] = []
    async with ruled.mirror.run() as run, discovering(ruled, told):
        await run.until_copied()
        await ruled.renew_target()
        await run.until_told(TopicRenewed)
        await run.until_copied()
    assert not [one for one in told if isinstance(one, CopyDeleted)]
    await ruled.assert_copy(*OLD, *NEW)


@by("raymirror.topic.recreated = re-create")
async def test_a_mirror_that_does_not_have_the_flow_deletes_nothing(ruled: Ruled) -> None:
    told: list[AnyEvent] = []
    await ruled.renew_source()
    async with ruled.mirror.run(drain=False) as run, discovering(ruled, told, may_delete=False):
        await run.until(lambda: "waits until" in run.lane(ruled.topic).reason, "the lane to wait")
    assert not told
    await ruled.assert_copy(*OLD)


@by("raymirror.source.gap = continue")
async def test_continue_goes_on_behind_records_that_the_source_deleted(ruled: Ruled) -> None:
    """Between two runs: in one, a fetch that waits at the broker may bring the records before they are deleted."""
    await produce(ruled.mirror.source, ruled.topic, 0, NEW)
    await delete_records(ruled.mirror.source, ruled.topic, {0: 130})
    async with ruled.mirror.run() as run:
        gap = await run.until_told(SourceGap)
        await run.until_copied()
        assert (gap.first, gap.last, gap.goes_on_at) == (100, 129, 130)
    await ruled.assert_copy(*OLD, *NEW[30:])
