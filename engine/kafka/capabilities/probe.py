"""Reads what the brokers of one cluster can do: what ApiVersions told at each connection, and a few harmless questions.

Brokers of one cluster may differ, in the middle of an upgrade. A capability counts as there only if all brokers that
answer have it; the others are named.
"""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.kafka.admin.admin import broker_configs
from engine.kafka.admin.rights import missing_rights
from engine.kafka.capabilities.table import TABLE, TRANSACTIONS, Capability, Side, Versions, Weight
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import UNSUPPORTED_VERSION

TIMESTAMPS, LARGEST, AUTO_CREATE = "log.message.timestamp.type", "message.max.bytes", "auto.create.topics.enable"
_SETTINGS = (TIMESTAMPS, LARGEST, AUTO_CREATE)
_BROKER_S = 5.0
"""Most seconds to wait for one broker of many."""


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    """One capability of a cluster: whether all its brokers have it, and if not, which lack which requests."""

    name: str
    sides: tuple[Side, ...]
    weight: Weight
    has: bool
    brokers: tuple[int, ...] = ()
    """The brokers that lack it."""
    requests: tuple[str, ...] = ()
    """The requests that they do not offer, or that they refuse."""
    since: str = ""
    lost: str = ""
    instead: str = ""


class ClusterAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers of one cluster that answered can do; `settings`: values of some of their configs by name."""

    cluster: str
    brokers: tuple[int, ...]
    abilities: tuple[Ability, ...]
    settings: Mapping[str, tuple[str, ...]] = {}

    def lacks(self, side: Side) -> tuple[Ability, ...]:
        """Return the capabilities that this side of a flow needs and that some broker lacks."""
        return tuple(one for one in self.abilities if not one.has and side in one.sides)

    def has(self, name: str) -> bool:
        """Whether the cluster has a capability."""
        return all(one.has for one in self.abilities if one.name == name)


async def probe(client: ClusterClient, transactional_id: str | None) -> ClusterAbilities:
    """Ask every broker that can be reached; `transactional_id`: for a target, an id that is not in use.

    Raises BrokerUnreachable, ConnectionLost if the cluster became unreachable.
    """
    offered: dict[int, Versions] = {}

    async def ask(node: int) -> None:
        try:
            async with asyncio.timeout(_BROKER_S):
                offered[node] = dict((await client.control(node)).versions)
        except (TimeoutError, BrokerUnreachable, ConnectionLost):
            return  # the caller reports unreachable brokers

    await run_all(*map(ask, client.nodes))
    found = judge(client.alias, offered)
    asks = transactional_id is not None and bool(found.brokers) and found.has(TRANSACTIONS)
    if asks and await _refuses_transactions(client, transactional_id or ""):
        found = msgspec.structs.replace(found, abilities=tuple(_without_transactions(found)))
    return msgspec.structs.replace(found, settings=await _settings(client))


def judge(alias: str, offered: Mapping[int, Versions]) -> ClusterAbilities:
    """Compare what each broker offers with the table."""
    brokers = tuple(sorted(offered))
    return ClusterAbilities(
        cluster=alias,
        brokers=brokers,
        abilities=tuple(_ability(one, {node: one.absent(offered[node]) for node in brokers}) for one in TABLE),
    )


def _ability(row: Capability, absent: Mapping[int, tuple[str, ...]]) -> Ability:
    lacking = {node: requests for node, requests in absent.items() if requests}
    sides = tuple(side for side in Side if side in row.sides)
    if not lacking:
        return Ability(name=row.name, sides=sides, weight=row.weight, has=True, since=row.since)
    return _lack(row, tuple(lacking), dict.fromkeys(name for requests in lacking.values() for name in requests))


def _lack(row: Capability, brokers: tuple[int, ...], requests: Iterable[str]) -> Ability:
    return Ability(
        name=row.name,
        sides=tuple(side for side in Side if side in row.sides),
        weight=row.weight,
        has=False,
        brokers=brokers,
        requests=tuple(requests),
        since=row.since,
        lost=row.lost,
        instead=row.instead,
    )


def _without_transactions(found: ClusterAbilities) -> list[Ability]:
    (row,) = (one for one in TABLE if one.name == TRANSACTIONS)
    lack = _lack(row, found.brokers, ("EndTxn",))
    return [lack if one.name == TRANSACTIONS else one for one in found.abilities]


async def _refuses_transactions(client: ClusterClient, transactional_id: str) -> bool:
    """Whether the cluster offers the requests of transactions and answers that it does not support them."""
    try:
        await missing_rights(client, transactional_id)
    except KafkaRefusal as refusal:
        if refusal.code != UNSUPPORTED_VERSION:
            raise
        return True
    except ConnectionLost:  # the broker is shutting down: nothing is known
        return False
    return False


async def _settings(client: ClusterClient) -> dict[str, tuple[str, ...]]:
    """Return the different values of some brokers' configs, as far as brokers show them."""
    try:
        told = await broker_configs(client, _SETTINGS)
    except (BrokerUnreachable, ConnectionLost):
        return {}
    found = {name: tuple(sorted({one[name] for one in told.values() if name in one})) for name in _SETTINGS}
    return {name: values for name, values in found.items() if values}
