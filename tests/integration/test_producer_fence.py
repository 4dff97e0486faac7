"""A fence of ACLs on real brokers: it stops a producer and nothing else, and taking it back leaves what was there."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.helpers import create_ssl_context

from engine.flow.operations.driver import StepRun
from engine.flow.operations.fencing import AclFence, FenceChoice
from engine.kafka.admin.authorizer import AuthorizerSettings, authorizer_settings
from engine.kafka.admin.settings import KafkaSettings
from policies.dr.fence import EveryoneRule
from policies.sync.acl_sync import Binding, Resource
from tests.harness.admin import create_topics
from tests.harness.mirror import cluster_client
from tests.harness.secured import NAME, PASSWORD, SecuredCluster, secured_cluster

pytestmark = [pytest.mark.integration, pytest.mark.full]

TOPIC = "fenced"
PRINCIPAL = f"User:{NAME}"


class KeptNotes:
    """The notes of an operation that nobody takes over."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}

    def notes(self, name: str, _kind: type[msgspec.Struct]) -> tuple[Any, ...] | None:
        return self.rows.get(name)

    async def keep(self, name: str, rows: Sequence[msgspec.Struct]) -> None:
        self.rows[name] = tuple(rows)

    def assure(self) -> None:
        """Nobody else drives."""


def login(secured: SecuredCluster) -> dict[str, Any]:
    authority = secured.settings("x")["x.ssl.truststore.location"]
    return {
        "bootstrap_servers": secured.address,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": NAME,
        "sasl_plain_password": PASSWORD,
        "ssl_context": create_ssl_context(cafile=authority),
    }


async def writes(secured: SecuredCluster) -> bool:
    """Write as the fenced principal."""
    async with AIOKafkaProducer(**login(secured)) as client:
        try:
            await client.send_and_wait(TOPIC, b"v")
        except TopicAuthorizationFailedError:
            return False
    return True


async def reads(secured: SecuredCluster) -> bytes | None:
    """Read the first record as the fenced principal."""
    async with AIOKafkaConsumer(TOPIC, auto_offset_reset="earliest", **login(secured)) as client:
        async with asyncio.timeout(60):
            found = await client.getone()
    return cast("bytes | None", found.value)


async def eventually(secured: SecuredCluster, *, writable: bool) -> None:
    """Wait until the broker's authorizer has heard of a change."""
    async with asyncio.timeout(60):
        while await writes(secured) != writable:  # noqa: ASYNC110 - a broker tells nobody
            await asyncio.sleep(0.2)


async def test_a_fence_stops_a_producer_and_nothing_else(tmp_path: Path) -> None:
    with secured_cluster("fence", tmp_path / "fence") as secured:
        await create_topics(secured.cluster, {TOPIC: 1})
        await asyncio.to_thread(
            secured.allow, "--operation", "Write", "--topic", "fen", "--resource-pattern-type", "prefixed"
        )
        await asyncio.to_thread(secured.allow, "--operation", "Read", "--operation", "Describe", "--topic", TOPIC)
        client = cluster_client("fence", secured.cluster.bootstrap_servers)
        await client.open()
        try:
            settings = KafkaSettings(client)
            told = await authorizer_settings(client)
            assert told == AuthorizerSettings(everyone=EveryoneRule.NO, has_super_users=True)
            before = await settings.acls(Resource.TOPIC)
            await eventually(secured, writable=True)
            notes = KeptNotes()
            run = cast("StepRun", notes)
            fence = AclFence(settings, FenceChoice(own="User:ANONYMOUS", everyone=told.everyone))
            facts = await fence.close(run, [TOPIC])
            assert facts["principals"] == PRINCIPAL
            made: set[Binding] = await settings.acls(Resource.TOPIC) - before
            assert {str(one) for one in made} == {f"DENY WRITE on topic '{TOPIC}' for {PRINCIPAL} from *"}
            await eventually(secured, writable=False)
            assert await reads(secured) == b"v"
            assert await fence.open(run) == {"removed_bindings": 1}
            assert await settings.acls(Resource.TOPIC) == before
            await eventually(secured, writable=True)
        finally:
            await client.close()


async def test_brokers_say_that_the_rule_for_everybody_is_set_and_not_to_what(tmp_path: Path) -> None:
    secured = SecuredCluster("everyone", tmp_path / "everyone")
    secured.cluster.overrides["allow.everyone.if.no.acl.found"] = "true"
    with secured.cluster:
        client = cluster_client("everyone", secured.cluster.bootstrap_servers)
        await client.open()
        try:
            await create_topics(secured.cluster, {TOPIC: 1})
            assert (await authorizer_settings(client)).everyone is EveryoneRule.UNKNOWN
            assert await writes(secured)
            settings, notes = KafkaSettings(client), KeptNotes()
            choice = FenceChoice(own="User:ANONYMOUS", named=("User:other",), everyone=EveryoneRule.YES)
            await AclFence(settings, choice).close(cast("StepRun", notes), [TOPIC])
            assert len(await settings.acls(Resource.TOPIC)) == 2
            await eventually(secured, writable=True)  # whoever is not named is not locked out
            assert await AclFence(settings, choice).open(cast("StepRun", notes)) == {"removed_bindings": 2}
            assert await settings.acls(Resource.TOPIC) == set()
            assert await writes(secured)
        finally:
            await client.close()
