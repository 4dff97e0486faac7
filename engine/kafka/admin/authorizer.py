"""Asks what a client can learn of a cluster's authorizer beside its ACLs: whether settings of it exist.

A broker tells the names of all settings of its file, but values only of those that Kafka itself defines; the
authorizer's settings are not among them. So a client learns whether `allow.everyone.if.no.acl.found` and `super.users`
are set, and not to what. Source: Kafka's ConfigHelper (createBrokerConfigEntry) and KafkaConfig (maybeSensitive).
"""

from collections.abc import Mapping

import msgspec
from aiokafka.protocol.admin import DescribeConfigsRequest

from engine.base.errors import KafkaRefusal
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import NONE
from policies.dr.fence import EveryoneRule

EVERYONE, SUPER_USERS = "allow.everyone.if.no.acl.found", "super.users"
_BROKER_RESOURCE = 4


class AuthorizerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What brokers say; `has_super_users`: None if no broker permits asking."""

    everyone: EveryoneRule = EveryoneRule.UNKNOWN
    has_super_users: bool | None = None


async def authorizer_settings(client: ClusterClient) -> AuthorizerSettings:
    """Ask every broker. Raises BrokerUnreachable, ConnectionLost if one does not answer."""
    return judged_settings({node: await _named(client, node) for node in client.nodes})


def judged_settings(told: Mapping[int, frozenset[str] | None]) -> AuthorizerSettings:
    """Judge the names that brokers said are set; None: that broker does not permit asking.

    Only if every broker says that it is not set, nobody is allowed without an ACL: false is its default.
    """
    known = [names for names in told.values() if names is not None]
    is_no = len(known) == len(told) > 0 and not any(EVERYONE in names for names in known)
    return AuthorizerSettings(
        everyone=EveryoneRule.NO if is_no else EveryoneRule.UNKNOWN,
        has_super_users=any(SUPER_USERS in names for names in known) if known else None,
    )


async def _named(client: ClusterClient, node: int) -> frozenset[str] | None:
    try:
        connection = await client.control(node)
        answer = await connection.call(DescribeConfigsRequest([(_BROKER_RESOURCE, str(node), [EVERYONE, SUPER_USERS])]))
    except KafkaRefusal:  # the broker does not offer the request
        return None
    code, _, _, _, entries = answer.resources[0]
    return frozenset(entry[0] for entry in entries) if code == NONE else None
