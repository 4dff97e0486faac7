"""Quotas of clients on a cluster, and the warnings about them before a start."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.protocol.admin import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequest_v0,
    DescribeClientQuotasResponse_v0,
)

from engine.base.errors import ConnectionLost
from engine.checks.quota_check import quota_doubts
from engine.kafka.admin.client_quotas import client_quotas, scram_users, told_quotas
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.requests import SCRAM_USERS_0, DescribeScramUsers
from policies.sync.client_quotas import ClientQuota
from tests.unit.engine.config_files import mirror

DEFAULT_CLIENT = [("client-id", None)]


class Broker:
    """Tells quotas as the wire has them; a code refuses, an exception is raised."""

    def __init__(self, *entries: Any, code: int = 0, knows: bool = True, lost: bool = False) -> None:
        self.entries, self.code, self.knows, self.lost = entries, code, knows, lost

    def supports(self, key: int, version: int) -> bool:
        assert (key, version) == (48, 0)
        return self.knows

    async def call(self, request: DescribeClientQuotasRequest) -> Any:
        if self.lost:
            raise ConnectionLost("b:1")
        assert request.build(DescribeClientQuotasRequest_v0).encode()
        answer = DescribeClientQuotasResponse_v0
        return answer.decode(answer.SCHEMA.encode((0, self.code, None, list(self.entries))))


def client(broker: Broker) -> ClusterClient:
    async def any_connection() -> Broker:
        return broker

    return cast("ClusterClient", SimpleNamespace(any_connection=any_connection))


async def test_quotas_are_read() -> None:
    told = [(DEFAULT_CLIENT, [("producer_byte_rate", 5.5)]), ([("user", "u"), ("client-id", "c")], [("x", 1.0)])]
    assert await client_quotas(client(Broker(*told))) == (
        ClientQuota({"client-id": None}, {"producer_byte_rate": 5.5}),
        ClientQuota({"user": "u", "client-id": "c"}, {"x": 1.0}),
    )


@pytest.mark.parametrize("broker", [Broker(code=31), Broker(knows=False), Broker(lost=True)])
async def test_a_cluster_that_tells_none_has_none_that_are_known(broker: Broker) -> None:
    assert await client_quotas(client(broker)) == ()


async def test_each_quota_is_told_where_it_limits_the_flow() -> None:
    config = mirror("")
    limits = [("producer_byte_rate", 2.0**20), ("consumer_byte_rate", 3 * 2.0**20), ("request_percentage", 50.0)]
    clients = {alias: client(Broker((DEFAULT_CLIENT, limits))) for alias in ("A", "B")}
    by = "of the default client-id"
    assert await quota_doubts(config, config.flows[0], clients) == (
        (
            "cluster 'A' limits raymirror's reads to 3.0 MiB/s per broker"
            f" (consumer_byte_rate {by}): copying can be no faster"
        ),
        (
            "cluster 'A' limits raymirror's requests to 50 % of a handler thread per broker"
            f" (request_percentage {by}): many partitions may be slow"
        ),
        (
            "cluster 'B' limits raymirror's writes to 1.0 MiB/s per broker"
            f" (producer_byte_rate {by}): copying can be no faster"
        ),
        (
            "cluster 'B' limits raymirror's requests to 50 % of a handler thread per broker"
            f" (request_percentage {by}): many partitions may be slow"
        ),
    )


class LoginBroker(Broker):
    """Tells users with SCRAM credentials."""

    def supports(self, key: int, version: int) -> bool:
        assert (key, version) == (50, 0)
        return self.knows

    async def call(self, request: DescribeScramUsers) -> Any:
        if self.lost:
            raise ConnectionLost("b:1")
        assert request.build(SCRAM_USERS_0).encode() == b"\x00\x00", "all users, no tags"
        answer = SCRAM_USERS_0.RESPONSE_TYPE
        return answer.decode(answer.SCHEMA.encode((0, self.code, None, list(self.entries), {})))


async def test_users_are_read_with_their_mechanisms_and_nothing_else() -> None:
    told: list[Any] = [
        ("ann", 0, None, [(1, 4096, {}), (2, 4096, {})], {}),
        ("bob", 0, None, [(9, 4096, {})], {}),
        ("eve", 91, "no such user", [], {}),
    ]
    assert await scram_users(client(LoginBroker(*told))) == {
        "ann": frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"}),
        "bob": frozenset({"mechanism 9"}),
    }


@pytest.mark.parametrize("broker", [LoginBroker(code=31), LoginBroker(knows=False), LoginBroker(lost=True)])
async def test_a_cluster_that_does_not_tell_users_is_not_said_to_have_none(broker: LoginBroker) -> None:
    assert await scram_users(client(broker)) is None


@pytest.mark.parametrize("broker", [Broker(code=31), Broker(knows=False), Broker(lost=True)])
async def test_a_cluster_that_does_not_tell_quotas_is_not_said_to_have_none(broker: Broker) -> None:
    assert await told_quotas(client(broker)) is None
