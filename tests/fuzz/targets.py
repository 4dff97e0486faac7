"""The readers that are fuzzed: how each is called, what it may raise, and inputs to begin with."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import msgspec

from actors.local_socket.frames import BadFrame, read_hello, read_reply, read_request
from engine.base.errors import ConfigError, MirrorError, WireError
from engine.base.unreadable import UNREADABLE
from engine.config.config import read_config
from engine.config.file.config_file import parse_file
from engine.core.mm2.commit_records import decode_commit
from engine.core.mm2.mm2_records import decode_checkpoint, decode_heartbeat, decode_offset_sync
from engine.core.offset_map.map_blocks import decode_block, decode_tail, read_block_key
from engine.core.position.announced_runs import decode_announcement
from engine.core.position.position import decode_value
from engine.core.reports.progress_sample import decode_sample
from engine.kafka.admin.topic_shapes import read_shapes
from engine.kafka.protocol.admin_codec import ConfigsReader, read_acls, read_altered, read_created
from engine.kafka.protocol.codec import FETCH_VERSIONS, PRODUCE_VERSIONS, decode_fetch, decode_produce
from engine.kafka.protocol.group_codec import OffsetFetchReader
from engine.kafka.protocol.metadata_codec import read_metadata
from engine.kafka.protocol.readable import MALFORMED
from engine.security.oauth.token import read_token
from engine.security.sasl.jaas import parse_jaas
from engine.security.sasl.login import LoginFailed
from engine.security.sasl.scram import ScramLogin
from engine.security.settings import BadSecurity
from engine.security.tls.jks import read_java_store
from engine.security.tls.pkcs12 import read_pkcs12
from engine.security.tls.store import BadStore
from engine.state.event_records import EventCodec
from engine.state.state import StateCodec
from engine.wire.batch import BatchHeader, check_crc, control_type, split_batches
from engine.wire.bounded import InflateError
from engine.wire.codecs import decompress
from engine.wire.decode import raw_records, walk_records
from engine.wire.extent import extent
from engine.wire.merging.survey import SurveyRules, survey
from policies.model import FlowName
from tests.fuzz.limits import LEAST_BYTES
from tests.unit.engine.wire.batches import batch, control, legacy, records

ROOT = Path(__file__).parents[1]
_FLOW = FlowName("A", "B")
_IDS = {UUID(int=7).bytes: "t"}
_MOST_INFLATED = 256 * 1024
"""Compressed batches may inflate up to a limit that the user sets; here it is low, so that the memory stays bounded."""
_LEAST_OF_CONFIG = 32 << 20
"""Each pair of clusters has keys of its own, as in MM2: a line of twenty aliases makes 380 pairs."""
_HUB = "\n".join(
    (
        f"clusters = {', '.join(f'c{number}' for number in range(14))}",
        "bootstrap.servers = k:9092",
        "c0->c1.enqbled = true",
        "c0->c1.enabled = true",
    )
).encode()
"""A typing error among many clusters: the keys that it may mean are those of every pair."""
_MANY_PARTITIONS = b"".join(
    (bytes(5), b"\1\1", bytes(4), b"\2", bytes(2), b"\2t", bytes(17), b"\x81\x80\x80\x08", bytes(14), b"\1\1\1\0")
)
"""An answer about a topic t with 16,777,216 partitions, of which it has one."""
_RULES = SurveyRules(max_batch_bytes=1 << 20, small_plain=4096, small_compressed=512, committed=True)
_HELLO = b'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"";'
_CONTENT = records(6, first=70)
_BATCHES = (
    *(bytes(batch(_CONTENT, codec)) for codec in range(5)),
    bytes(control(0, 70)),
    *(bytes(legacy(_CONTENT, 1, codec)) for codec in (1, 2, 3)),
    *(bytes(legacy(_CONTENT, 0, codec)) for codec in (1, 2)),
)


class FuzzTarget(msgspec.Struct, frozen=True):
    """One reader. `refusals`: the errors that it may raise. Seeds are whole inputs; `examples`: for one test.

    `least`: the bytes that it may take for any input (`limits.LEAST_BYTES`).
    """

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]
    examples: int = 50
    least: int = LEAST_BYTES


def _config(file: str) -> Callable[[bytes], object]:
    return lambda data: read_config(parse_file(data, file))


def _jaas(data: bytes) -> object:
    return parse_jaas(data.decode("utf-8", "replace"))


def _token(data: bytes) -> object:
    return read_token(data.decode("utf-8", "replace"), 0)


def _scram(data: bytes) -> None:
    """Take part in a login with a broker that sends these two messages, one line each."""
    exchange = ScramLogin("SCRAM-SHA-256", "u", "p", nonce=lambda: "n").exchange("h")
    next(exchange)
    try:
        for message in data.split(b"\n", 1):
            exchange.send(message)
    except StopIteration:
        return


def _java_store(data: bytes) -> object:
    return read_java_store(data, None, "secret")


def _pkcs12(data: bytes) -> object:
    return read_pkcs12(data, "secret")


def _batches(raw: bytes) -> None:
    """Read batches as intake does: their headers, their CRCs, their records."""
    data = bytearray(raw)
    for at, header in split_batches(data, 0, len(data), "t", 0):
        if header.is_control:
            control_type(data, at, header, "t", 0)
        try:
            for _ in walk_records(raw_records(data, at, header, _MOST_INFLATED), header, "t", 0):
                pass
        except InflateError:
            continue
        finally:
            _checked(data, at, header)


def _checked(data: bytearray, at: int, header: BatchHeader) -> None:
    try:
        check_crc(data, at, header, "t", 0)
    except WireError:
        return


def _survey(raw: bytes) -> None:
    data = bytearray(raw)
    survey(data, 0, len(data), _RULES, wanted=70)
    extent(data, 0, len(data), 1 << 40)


def _codec(data: bytes) -> None:
    if data:
        decompress(data[0] % 5, data[1:], _MOST_INFLATED)


def _pair(read: Callable[[bytes | None, bytes | None], object]) -> Callable[[bytes], object]:
    """Read key and value of a record; the first byte is the length of the key, 255: it is null."""

    def split(data: bytes) -> object:
        size = data[0] if data else 0
        key, value = (None, data[1:]) if size == 255 else (data[1 : 1 + size], data[1 + size :])
        return read(key, value or None)

    return split


def pair(key: bytes, value: bytes) -> bytes:
    """Return a record as `_pair` splits it."""
    return bytes([len(key)]) + key + value


def _fetch(data: bytes) -> None:
    version = FETCH_VERSIONS[data[0] % 3] if data else 13
    found = decode_fetch(version, memoryview(data[1:]), _IDS)
    assert all(0 <= one.start <= one.end <= len(data) - 1 for one in found.partitions)


def _produce(data: bytes) -> None:
    version = PRODUCE_VERSIONS[data[0] % 2] if data else 13
    decode_produce(version, memoryview(data[1:]), _IDS)


def _answers() -> Iterator[tuple[str, FuzzTarget]]:
    """Yield the readers of brokers' answers: whatever they raise ends the connection (protocol/readable.py)."""
    zeros = (bytes(8), bytes(64), b"\x01" * 40, b"\x02\x02" * 40, bytes(range(200)), b"\xff" * 64)
    for name, read in (
        ("fetch", _fetch),
        ("produce", _produce),
        ("offset fetch", lambda data: OffsetFetchReader().read(data)),
        ("topic shapes", read_shapes),
        ("metadata", read_metadata),
        ("configs", lambda data: ConfigsReader().read(data)),
        ("acls", read_acls),
        ("altered configs", read_altered),
        ("created acls", read_created),
    ):
        yield f"answer: {name}", FuzzTarget(read, MALFORMED, (*zeros, _MANY_PARTITIONS))


def _records() -> Iterator[tuple[str, FuzzTarget]]:
    """Yield the readers of records in internal topics, where anybody may write."""
    text = (b"{}", b"[]", b'{"format": 1}', b"null", b'"x"', b"\x00\x01" * 8, b'{"x":' + b"[" * 3000, b'"\x80"')
    foreign = (ValueError, MirrorError)
    yield "record: position", FuzzTarget(lambda data: decode_value(data), foreign, text)
    yield "record: announced runs", FuzzTarget(lambda data: decode_announcement(data), foreign, text)
    yield "record: map block", FuzzTarget(lambda data: decode_block(0, data), foreign, text)
    yield "record: map block key", FuzzTarget(lambda data: read_block_key(data), foreign, text)
    yield "record: map tail", FuzzTarget(lambda data: decode_tail(data), foreign, text)
    yield "record: progress sample", FuzzTarget(lambda data: decode_sample(data), (*UNREADABLE, MirrorError), text)
    heartbeat = pair(bytes.fromhex("000141000142"), bytes.fromhex("000000000000499602d2"))
    for name, read in (
        ("heartbeat", decode_heartbeat),
        ("checkpoint", decode_checkpoint),
        ("offset sync", decode_offset_sync),
        ("commit", decode_commit),
    ):
        yield f"record: {name}", FuzzTarget(_pair(read), foreign, (heartbeat, b"\xff\x00", bytes(40)))
    pairs = tuple(pair(b'{"flow":"A->B","kind":"desired","subject":""}', one) for one in text)
    events, states = EventCodec(_FLOW, "e"), StateCodec(_FLOW, "s")
    yield "record: event", FuzzTarget(_pair(lambda *one: events.decode([one])), (MirrorError,), pairs)
    yield "record: state", FuzzTarget(_pair(lambda *one: states.decode([one])), (MirrorError,), pairs)


def _corpus(folder: str, suffix: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((ROOT / folder).glob(f"*{suffix}")))


def _all() -> Iterator[tuple[str, FuzzTarget]]:
    properties = _corpus("contract/corpus", ".properties")[::8]  # each is read with all its errors
    yaml = (
        b"clusters:\n  A: {bootstrap.servers: 'a:1'}\n  B: {bootstrap.servers: 'b:1'}\nflows: {A->B: {}}\n",
        b"clusters: [A, B]\nA.bootstrap.servers: a:1\n",
        b"a: &x [1, 2]\nb: *x\n",
        b"{" * 300,
    )
    many = (*properties, _HUB)
    yield "config: properties", FuzzTarget(_config("f.properties"), (ConfigError,), many, 10, _LEAST_OF_CONFIG)
    yield "config: yaml", FuzzTarget(_config("f.yaml"), (ConfigError,), yaml, least=_LEAST_OF_CONFIG)
    yield "login: jaas", FuzzTarget(_jaas, (BadSecurity,), (_HELLO, b"a required;", b"/* x */ a.B optional c='d' ;"))
    yield "login: token", FuzzTarget(_token, (LoginFailed,), (b"a.e30.c", b"e30.eyJleHAiOjF9.x", b"..", b"a.b"))
    scram = (b"r=nx,s=c2FsdA==,i=4096\nv=AAAA", b"r=nx,s=,i=99999999999\n", b"e=other\n")
    yield "login: scram", FuzzTarget(_scram, (LoginFailed,), scram)
    java = b"\xfe\xed\xfe\xed" + struct.pack(">II", 2, 1) + struct.pack(">I", 2) + b"\x00\x01a" + bytes(8)
    yield (
        "store: java",
        FuzzTarget(_java_store, (BadStore,), (java + b"\x00\x05X.509\x00\x00\x00\x01a" + bytes(20), java)),
    )
    yield "store: pkcs12", FuzzTarget(_pkcs12, (BadStore,), (b"0\x82\x01\x00\x02\x01\x03", b"0\x80", bytes(20)))
    yield "wire: batches", FuzzTarget(_batches, (WireError,), _BATCHES)
    yield "wire: survey", FuzzTarget(_survey, (WireError,), (*_BATCHES, _BATCHES[0] * 3))
    packed = tuple(bytes([codec]) + raw for codec in range(5) for raw in _BATCHES[:5])
    yield "wire: codecs", FuzzTarget(_codec, (InflateError,), packed)
    for name, read in (("request", read_request), ("hello", read_hello), ("reply", read_reply)):
        yield (
            f"socket: {name}",
            FuzzTarget(read, (BadFrame,), (b"\x80", b"\xc0", b"\x81\xa4type\xa5hello", b"\x91" * 400)),
        )
    yield from _answers()
    yield from _records()


TARGETS = dict(_all())
