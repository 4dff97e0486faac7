"""Probe a broker with two requests: which API versions it has, and which brokers are alive.

The requests are built with struct, so that the embedded clusters need no Kafka client.

    request   int32 size | int16 api key | int16 version | int32 correlation id | string client id | body
    response  int32 size | int32 correlation id | body
    string    int16 length (-1 = null) | UTF-8
"""

import socket
import struct
from typing import Final

API_VERSIONS: Final = 18
METADATA: Final = 3
CLIENT_ID: Final = b"raymirror-probe"
TIMEOUT_S: Final = 2.0


def living_brokers(host: str, port: int) -> set[int]:
    """Ids of the unfenced brokers as this broker sees them; raises OSError while it does not answer."""
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        (error_code,) = struct.unpack_from(">h", _ask(connection, API_VERSIONS, 0, b""))
        if error_code != 0:
            raise ConnectionError(f"ApiVersions answered error {error_code}")
        # Metadata v4: asks for no topics (an empty array), creates none.
        return decode_broker_ids(_ask(connection, METADATA, 4, struct.pack(">ib", 0, 0)))


def decode_broker_ids(body: bytes) -> set[int]:
    """Broker ids of a Metadata v3/v4 response: int32 throttle | [int32 id | string host | int32 port | string rack]."""
    (count,) = struct.unpack_from(">i", body, 4)
    at, found = 8, set()
    for _ in range(count):
        (broker_id,) = struct.unpack_from(">i", body, at)
        at = _after_string(body, at + 4)
        at = _after_string(body, at + 4)
        found.add(broker_id)
    return found


def _after_string(body: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", body, at)
    return at + 2 + max(int(length), 0)


def _ask(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, len(CLIENT_ID)) + CLIENT_ID
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)[4:]


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)
