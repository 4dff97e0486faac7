"""The lag bench reads its whole topic, even if the broker reports late where the topic begins."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher

from bench.lag.topic import read_topic
from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce

pytestmark = pytest.mark.integration

TOPIC = "read-whole-by-a-bench"


async def test_a_late_answer_takes_no_reader_to_the_end(
    source_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_topics(source_cluster, {TOPIC: 1})
    await produce(source_cluster, TOPIC, 0, numbered(10))
    ask: Any = Fetcher._proc_offset_request
    ask_end: Any = Fetcher.end_offsets
    asks_end, end_is_known = ContextVar("asks_end", default=False), asyncio.Event()

    async def answered_late(fetcher: Any, *words: Any) -> Any:
        """Have where to begin answered only after the reader has heard its end, and said what it says then."""
        answer = await ask(fetcher, *words)
        if not asks_end.get():
            await end_is_known.wait()
        return answer

    async def end(fetcher: Any, *words: Any) -> Any:
        asks_end.set(True)
        answer = await ask_end(fetcher, *words)
        asyncio.get_running_loop().call_soon(end_is_known.set)
        return answer

    monkeypatch.setattr(Fetcher, "_proc_offset_request", answered_late)
    monkeypatch.setattr(Fetcher, "end_offsets", end)
    found = await read_topic(source_cluster.bootstrap_servers, TOPIC)
    assert [key for _, key, _ in found] == [one.key for one in numbered(10)]
