"""Batches that raymirror wrote, read by Kafka's own reader: `DumpLogSegments` over a segment file."""

import re
import struct
from pathlib import Path

import pytest

from deploy.local.jars import ensure_jars, say_aloud
from deploy.local.tools import run_tool
from engine.wire import native
from engine.wire.batch import read_header, restamp
from engine.wire.merging.merge import merge
from engine.wire.records import Record, reencode
from tests.unit.engine.wire.batches import DELETE_HORIZON, LOG_APPEND, TRANSACTIONAL, batch, header_of, legacy, only

pytestmark = [pytest.mark.contract, pytest.mark.local]

_BATCH = re.compile(r"^baseOffset: \d+ .* count: (?P<count>\d+) .* compresscodec: (?P<codec>\w+) .* isvalid: true$")
_RECORD = re.compile(
    r"^\| offset: (?P<offset>\d+) CreateTime: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+)"
    r" valueSize: (?P<value_size>-?\d+) sequence: -?\d+ headerKeys: \[(?P<headers>[^\]]*)\]"
    r"(?: key: (?P<key>\S*))?(?: payload: (?P<value>\S*))?$"
)
_CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
Seen = tuple[int, int, bytes | None, bytes | None, tuple[bytes, ...]]


def _source(first: int, gap_every: int) -> list[Record]:
    """Records with offset gaps, null and empty fields, headers, timestamps that go back; no spaces, for the parser."""
    found = []
    for index in range(600):
        if gap_every and index % gap_every == 3:
            continue
        key = None if index % 5 == 4 else b"" if index % 7 == 6 else b"key-%d" % index
        value = None if index % 6 == 5 else b"" if index % 11 == 10 else b"value-%d-" % index + b"x" * (index % 300)
        headers = ((b"trace", b"%d" % index), (b"none", None)) if index % 2 else ()
        found.append(Record(first + index, 1_700_000_000_000 + index * 7 % 50, key, value, headers))
    return found


class _Segment:
    """A log segment filled batch by batch, with what a reader should find in it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.next_offset = 0
        self.wanted: list[Seen] = []

    def append(self, payload: bytearray, content: list[Record]) -> None:
        """Put a produced batch where a broker would: at the next offset."""
        placed = bytearray(payload)
        struct.pack_into(">q", placed, 0, self.next_offset)
        self.data += placed
        for record in content:
            names = tuple(name for name, _ in record.headers)
            self.wanted.append((self.next_offset, record.timestamp, record.key, record.value, names))
            self.next_offset += 1

    def append_reencoded(self, built: bytearray, content: list[Record], limit: int = 1 << 20) -> None:
        """Reencode a source batch from its first wanted record on and put every piece in."""
        left = list(content)
        pieces = reencode(built, 0, only(built), "t", 0, wanted_offset=content[0].offset, max_batch_bytes=limit)
        for piece in pieces:
            self.append(piece.payload, left[: piece.record_count])
            del left[: piece.record_count]
        assert not left

    def read_by_kafka(self, folder: Path) -> tuple[list[Seen], set[str]]:
        """Return the records and codecs Kafka's own reader finds; every batch must be valid."""
        file = folder / f"{0:020}.log"
        file.write_bytes(self.data)
        flags = ("--deep-iteration", "--print-data-log", "--files", str(file))
        lines = run_tool("org.apache.kafka.tools.DumpLogSegments", *flags).splitlines()
        batches = [match for line in lines if (match := _BATCH.match(line))]
        records = [match for line in lines if (match := _RECORD.match(line))]
        assert len(batches) + len(records) == len(lines) - 2, lines[:3]
        assert sum(int(match["count"]) for match in batches) == len(records)
        return [_seen(match) for match in records], {match["codec"] for match in batches}


def _seen(match: re.Match[str]) -> Seen:
    def field(name: str) -> bytes | None:
        return None if int(match[f"{name}_size"]) < 0 else (match[name] or "").encode()

    names = tuple(name.encode() for name in match["headers"].split(",") if name)
    return int(match["offset"]), int(match["timestamp"]), field("key"), field("value"), names


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    ensure_jars(say_aloud)


@pytest.mark.parametrize("codec", range(5))
def test_kafka_reads_what_we_reencode_and_restamp(codec: int, tmp_path: Path) -> None:
    segment = _Segment()
    gaps, plain = _source(1000, gap_every=13), _source(5000, gap_every=0)
    segment.append_reencoded(batch(gaps, codec), gaps)
    segment.append_reencoded(batch(gaps, codec, bits=DELETE_HORIZON), gaps[250:])
    segment.append_reencoded(batch(plain, codec), plain, limit=4000)
    stamped = [Record(r.offset, 4242, r.key, r.value, r.headers) for r in plain]
    segment.append_reencoded(batch(plain, codec, bits=LOG_APPEND, max_timestamp=4242), stamped)
    large = [Record(9000, 4242, b"large", b"0123456789abcdef" * 20_000)]
    segment.append_reencoded(batch(large, codec), large, limit=1)  # compressed hard, and alone
    passed = batch(plain, codec, bits=TRANSACTIONAL | DELETE_HORIZON)
    restamp(passed, 0, header_of(passed), 4711, 3, 2**31 - 5)
    segment.append(passed, plain)
    found, codecs = segment.read_by_kafka(tmp_path)
    assert found == segment.wanted
    assert codecs == {_CODEC_NAMES[codec]}


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize("codec", range(5))
def test_kafka_reads_what_we_merge(
    codec: int, is_native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_native:
        monkeypatch.setattr(native, "module", None)
    elif native.module is None:
        pytest.skip(native.in_use())
    segment = _Segment()
    gaps = _source(1000, gap_every=13)
    bits = (0, TRANSACTIONAL, DELETE_HORIZON, 0)
    built = [batch(gaps[at : at + 3], codec, bits=bits[at % 4]) for at in range(0, len(gaps), 3)]
    rest, left = built, list(gaps)
    while rest:
        found = merge(rest, codec=codec, max_batch_bytes=20_000)
        payload = found.encoded.payload if found.encoded is not None else rest[0]
        count = only(payload).record_count
        restamp(payload, 0, header_of(payload), 4711, 3, len(gaps) - len(left))
        segment.append(payload, left[:count])
        del left[:count]
        rest = rest[found.batches :]
    read, codecs = segment.read_by_kafka(tmp_path)
    assert read == segment.wanted
    assert codecs == {_CODEC_NAMES[codec]}
    assert not left


def test_kafka_reads_what_was_format_0_or_1(tmp_path: Path) -> None:
    segment = _Segment()
    old = [Record(r.offset, r.timestamp, r.key, r.value) for r in _source(1000, gap_every=13)]
    timeless = [Record(r.offset, -1, r.key, r.value) for r in old]
    for codec in (1, 2, 3):
        segment.append_reencoded(legacy(old, 1, codec), old)
    for codec in (1, 2):
        segment.append_reencoded(legacy(old, 0, codec), timeless)
    for magic, content in ((0, timeless[:1]), (1, old[:1])):
        segment.append_reencoded(legacy(content, magic), content)
    found, codecs = segment.read_by_kafka(tmp_path)
    assert found == segment.wanted
    assert codecs == {"none", "gzip", "snappy", "lz4"}
    assert read_header(segment.data, 0).magic == 2
