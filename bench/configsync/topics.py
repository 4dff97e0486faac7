"""Creates the bench's topics, changes their configs, and reads them from outside both systems."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.errors import RequestTimedOutError
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.metadata import MetadataRequest

from bench.admin import admin, set_configs
from bench.errors import BenchError
from engine.base.parts import parts

CHANGED = "retention.ms"
OWN = {CHANGED: "600000000", "segment.bytes": "2000000"}
"""The first configs of every topic, on both sides."""
_AT_ONCE = 250
_DEADLINE_S, _POLL_S = 3600.0, 0.2
_EXISTS = 36
"""The error of a broker for a topic that exists."""
_UNKNOWN = 3
"""The error of a broker for a topic that it does not know yet."""


async def create(address: str, names: Sequence[str], partitions: int) -> None:
    """Create topics with their configs; raises BenchError if the cluster refuses one."""
    async with admin(address) as client:
        for part in parts(names, _AT_ONCE):
            new = [NewTopic(name, partitions, 1, topic_configs=OWN) for name in part]
            await _create(client, new)
        await _until_told(client, names, OWN[CHANGED])
        await _until_everybody_knows(client, names)


async def _create(client: Any, new: Sequence[NewTopic]) -> None:
    """Create some topics; those of a busy cluster that are asked for again are there by then. Raises BenchError."""
    give_up_at_s = time.monotonic() + _DEADLINE_S
    while True:
        try:
            answer = await client.create_topics(new, timeout_ms=120_000)
        except RequestTimedOutError:
            if time.monotonic() > give_up_at_s:
                raise BenchError("dataset", "the cluster does not answer") from None
        else:
            return _require([row for row in answer.topic_errors if row[1] != _EXISTS])


async def change(address: str, names: Sequence[str], value: str) -> None:
    """Set another value of `CHANGED` for topics; returns when the cluster reports it."""
    async with admin(address) as client:
        for part in parts(names, _AT_ONCE):
            await set_configs(client, part, OWN | {CHANGED: value})
        await _until_told(client, names, value)


async def _until_told(client: Any, names: Sequence[str], value: str) -> None:
    """Wait until each broker reports it: they follow their controller's log, not in step. Raises BenchError.

    A round that asks a broker which is behind finds nothing to do, and its figure is of nothing.
    """
    deadline = time.monotonic() + _DEADLINE_S
    for broker in (await client.describe_cluster())["brokers"]:
        left = names
        while left := await behind(client, left, value, broker["node_id"]):
            if time.monotonic() > deadline:
                raise BenchError("dataset", f"{len(left)} topics lack the value on a broker, {left[0]} first")
            await asyncio.sleep(_POLL_S)


async def _until_everybody_knows(client: Any, names: Sequence[str]) -> None:
    """Wait until each broker knows each topic: a broker that is behind reports it as unknown. Raises BenchError."""
    deadline = time.monotonic() + _DEADLINE_S
    for broker in (await client.describe_cluster())["brokers"]:
        unknown = names
        while unknown := await _unknown(client, broker["node_id"], unknown):
            if time.monotonic() > deadline:
                raise BenchError("dataset", f"broker {broker['node_id']} does not know {len(unknown)} topics")
            await asyncio.sleep(_POLL_S)


async def _unknown(client: Any, node: int, names: Sequence[str]) -> list[str]:
    # Without creation: a broker that does not know a topic would ask its controller for it at each request.
    answer = await client._send_request(MetadataRequest(list(names), allow_auto_topic_creation=False), node)
    return [topic["topic"] for topic in answer.to_object()["topics"] if topic["error_code"]]


async def behind(client: Any, names: Sequence[str], value: str, node: int | None = None) -> list[str]:
    """Return which topics do not have this value of `CHANGED` yet, as one broker says, or any."""
    found = []
    for part in parts(names, _AT_ONCE):
        asked = DescribeConfigsRequest([(ConfigResourceType.TOPIC, name, [CHANGED]) for name in part])
        answer = await client._send_request(asked, node)
        _require([row for row in answer.resources if row[0] != _UNKNOWN], code_at=0)
        found += [
            name
            for _, _, _, name, entries in answer.resources
            if {one[0]: one[1] for one in entries} != {CHANGED: value}
        ]
    return found


def _require(rows: Sequence[Sequence[Any]], code_at: int = 1) -> None:
    for row in rows:
        if row[code_at]:
            raise BenchError("dataset", f"a cluster refused: {row}")
