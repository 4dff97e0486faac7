"""Gives and takes the rights of a mirror on a secured cluster, and reads what the broker has denied it."""

import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from deploy.local.cluster import EmbeddedCluster
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol import admin_codec as codec
from policies.grants.planning import Grant
from policies.grants.rights import ResourceKind
from policies.sync.acl_sync import Binding, Pattern, Permission
from tests.harness.secured import NAME

AUTHORIZER_LOG = {"kafka.authorizer.logger": "INFO"}
"""Log levels with which a broker logs what it denies."""
_DELETE_ACLS = (31, 1)
_KINDS = {
    ResourceKind.TOPIC: 2,
    ResourceKind.GROUP: 3,
    ResourceKind.CLUSTER: 4,
    ResourceKind.TRANSACTIONAL_ID: 5,
}
"""Kafka's ResourceType."""
_ANSWER_S = 30.0


class GrantDesk:
    """Changes the ACLs of the mirror's user on one cluster, over the door where everybody may do everything."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def give(self, grants: Sequence[Grant]) -> None:
        """Add rights."""
        body = codec.create_acls([binding_of(one) for one in grants])
        answer = codec.read_created(await self._ask(codec.CREATE_ACLS, body))
        assert [code for code, _ in answer] == [0] * len(grants), answer

    async def take(self, grants: Sequence[Grant]) -> None:
        """Remove rights, which must be there."""
        body = struct.pack(">i", len(grants)) + b"".join(_filter(binding_of(one)) for one in grants)
        answer = await self._ask(_DELETE_ACLS, body)
        (count,) = struct.unpack_from(">i", answer, 4)
        (code, message_bytes) = struct.unpack_from(">hh", answer, 8)
        (removed,) = struct.unpack_from(">i", answer, 12 + max(0, message_bytes))
        assert (count, code) == (len(grants), 0)
        assert removed == 1, grants[0]

    async def _ask(self, request: tuple[int, int], body: bytes) -> bytes:
        return bytes(await (await self._client.controller()).request(*request, False, [body], _ANSWER_S))


@asynccontextmanager
async def grant_desk(cluster: EmbeddedCluster) -> AsyncIterator[GrantDesk]:
    """Connect by the plain door."""
    host, _, port = cluster.bootstrap_servers.partition(":")
    client = ClusterClient("admin", [(host, int(port))], HandshakeOptions(client_id="test-grants"))
    await client.open()
    try:
        yield GrantDesk(client)
    finally:
        await client.close()


def binding_of(grant: Grant) -> Binding:
    """Return the ACL of a grant for the mirror's user."""
    pattern = Pattern.PREFIXED if grant.name.is_prefix else Pattern.LITERAL
    who = f"User:{NAME}"
    kind, operation = _KINDS[grant.kind], int(grant.operation)
    return Binding(kind, grant.name.name, int(pattern), who, "*", operation, int(Permission.ALLOW))


def _filter(one: Binding) -> bytes:
    texts = (struct.pack(">h", len(text.encode())) + text.encode() for text in (one.principal, one.host))
    name = struct.pack(">h", len(one.name.encode())) + one.name.encode()
    return b"".join(
        [
            struct.pack(">b", one.resource),
            name,
            struct.pack(">b", one.pattern),
            *texts,
            struct.pack(">bb", one.operation, one.permission),
        ]
    )


def denied(clusters: Iterable[EmbeddedCluster]) -> list[str]:
    """Return the lines in which brokers say what they denied to the mirror."""
    lines = [line for one in clusters for path in one.log_files for line in path.read_text().splitlines()]
    return [line for line in lines if f"User:{NAME} is Denied" in line]
