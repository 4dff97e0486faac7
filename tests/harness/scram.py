"""Passwords of SCRAM users, changed by one request (KIP-554): Kafka's own tool would start a Java for each."""

import hashlib
import secrets
import struct

from deploy.local.cluster import EmbeddedCluster
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.codec import uvarint
from engine.kafka.protocol.group_codec import read_text, read_uvarint, skip_tags

_ALTER_USER_SCRAM_CREDENTIALS = (51, 0)
_SHA_256, _ITERATIONS = 1, 4096
_ANSWER_S = 60.0


async def set_password(cluster: EmbeddedCluster, user: str, password: str) -> None:
    """Give a user a password for SCRAM-SHA-256, or another one."""
    host, _, port = cluster.bootstrap_servers.partition(":")
    client = ClusterClient("admin", [(host, int(port))], HandshakeOptions(client_id="test-scram"))
    await client.open()
    try:
        connection = await client.controller()
        asked = await connection.request(*_ALTER_USER_SCRAM_CREDENTIALS, True, [_upsert(user, password)], _ANSWER_S)
        answer = bytes(asked)
    finally:
        await client.close()
    count, at = read_uvarint(answer, skip_tags(answer, 0) + 4)  # after the throttle time
    name, at = read_text(answer, at)
    assert (count - 1, name, struct.unpack_from(">h", answer, at)) == (1, user, (0,)), answer


def _upsert(user: str, password: str) -> bytes:
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    none, one, no_tags = uvarint(1), uvarint(2), b"\0"
    how = struct.pack(">bi", _SHA_256, _ITERATIONS)
    return none + one + _compact(user.encode()) + how + _compact(salt) + _compact(salted) + no_tags + no_tags


def _compact(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data
