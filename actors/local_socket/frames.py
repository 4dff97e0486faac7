"""Frames on the socket: msgpack messages, each after its length in 4 bytes; never pickle.

The supervisor sends first (Hello), then answers one request after the other. A message that is too long or cannot be
read ends the connection.
"""

import struct
from typing import Final, TypeVar

import msgspec

from actors.model.requests import AnyRequest

PROTOCOL: Final = 1
"""Version of the protocol: increased when requests or answers change so that the other side would misread them."""
HEAD: Final = struct.Struct(">I")
MOST_REQUEST: Final = 1024 * 1024
MOST_ANSWER: Final = 256 * 1024 * 1024
"""Bytes. A status with a row for each of 100,000 partitions has about 50 MB."""


_T = TypeVar("_T")


class BadFrame(Exception):
    """The other side sent a frame that is too long or cannot be read."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First message of the supervisor: which mirror and instance the socket belongs to."""

    protocol: int = PROTOCOL
    namespace: str
    instance_id: str


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """What the supervisor's method returned."""

    body: bytes | None


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """Why there is no answer. `meant`: the supervisor refuses the request, else it failed. `exit_code`: the error's."""

    text: str
    meant: bool
    exit_code: int | None = None


Reply = Answer | Refusal

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)
_hellos = msgspec.msgpack.Decoder(Hello)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def pack(message: AnyRequest | Hello | Reply) -> bytes:
    body = _encoder.encode(message)
    return HEAD.pack(len(body)) + body


def length_of(head: bytes, most: int) -> int:
    """Read the length of the message after a head. Raises BadFrame if it has more bytes than `most`."""
    (length,) = HEAD.unpack(head)
    if length > most:
        raise BadFrame(f"a message of {length:,} bytes, {most:,} are allowed")
    return int(length)


def read_request(body: bytes) -> AnyRequest:
    """Read a request. Raises BadFrame."""
    return _read(_requests, body)


def read_hello(body: bytes) -> Hello:
    """Read a Hello. Raises BadFrame."""
    return _read(_hellos, body)


def read_reply(body: bytes) -> Reply:
    """Read an answer or a refusal. Raises BadFrame."""
    return _read(_replies, body)


def _read(decoder: msgspec.msgpack.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(f"a message that cannot be read: {error}") from error
