"""The proxy in front of a real broker: a client that only knows the proxy writes and reads through it."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from deploy.local.cluster import EmbeddedCluster
from deploy.local.proxy import Proxy

PRODUCE = 0
DEADLINE_S = 180


@pytest.mark.integration
async def test_produce_responses_are_held_while_the_broker_has_the_records(tmp_path: Path) -> None:
    async with Proxy(("127.0.0.1", 0)) as proxy, asyncio.timeout(DEADLINE_S):
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        cluster = EmbeddedCluster("proxied", tmp_path, overrides=advertised)
        proxy.target = ("127.0.0.1", cluster.brokers[0].port)
        await asyncio.to_thread(cluster.start)
        try:
            address = f"127.0.0.1:{proxy.port}"
            async with AIOKafkaProducer(bootstrap_servers=address) as producer:
                await producer.send_and_wait("held", b"first")
                proxy.hold(frozenset({PRODUCE}))
                answer = await producer.send("held", b"second")
                await proxy.wait_held(1)
                assert not answer.done()
                async with AIOKafkaConsumer(
                    "held", bootstrap_servers=address, auto_offset_reset="earliest"
                ) as consumer:
                    read = [(await consumer.getone()).value for _ in range(2)]
                assert read == [b"first", b"second"], "the broker has it, the producer does not know"
                assert not answer.done()
                proxy.release()
                assert (await answer).offset == 1
        finally:
            await asyncio.to_thread(cluster.stop)
