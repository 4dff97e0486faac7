"""Bytes that Kafka 4.3.1 wrote: log segments of a real broker, kept in `golden/`.

`none` .. `zstd`: 30 lines through Kafka's own console producer. `stamped`: a log-append-time topic. `txn`: four
transactions of three records, committed and aborted in turn. `compacted`: what the cleaner left of three rounds of 20
keys, with offset gaps, tombstones and a delete horizon.
"""

from pathlib import Path

import pytest

from engine.wire.aborted import AbortedTransactions
from engine.wire.batch import BatchHeader, Reason, Verdict, check_crc, control_type, judge, restamp, split_batches
from engine.wire.records import Record, decode_records, reencode
from tests.unit.engine.wire.batches import PARTITION, TOPIC, contents, decoded, read_by_aiokafka

_FOLDER = Path(__file__).parent / "golden"
_LIMIT_BYTES = 1 << 20


def _batches(name: str) -> list[tuple[bytearray, BatchHeader]]:
    """Return each batch of a segment in a buffer of its own, checked."""
    segment = bytearray((_FOLDER / f"{name}.segment").read_bytes())
    found = []
    for at, header in split_batches(segment, 0, len(segment), TOPIC, PARTITION):
        check_crc(segment, at, header, TOPIC, PARTITION)
        found.append((segment[at : at + header.size_bytes], header))
    return found


def _records(built: bytearray, header: BatchHeader) -> list[Record]:
    return decode_records(built, 0, header, TOPIC, PARTITION)


@pytest.mark.parametrize(("codec", "name"), list(enumerate(["none", "gzip", "snappy", "lz4", "zstd"])))
def test_what_kafka_s_producer_wrote(codec: int, name: str) -> None:
    ((built, header),) = _batches(name)
    assert (header.codec, header.record_count, header.base_sequence) == (codec, 30, 0)
    assert judge(header, 0, _LIMIT_BYTES, False) == (Verdict.PASS, None)
    found = _records(built, header)
    assert found == read_by_aiokafka(built)
    assert [(record.key, record.value, record.headers) for record in found] == [
        (b"key-%d" % i, b"value-%d-" % i + b"abcdefghij" * 6, ((b"trace", b"%d" % i), (b"kind", b"golden")))
        for i in range(30)
    ]
    assert max(record.timestamp for record in found) == header.max_timestamp
    (piece,) = reencode(built, 0, header, TOPIC, PARTITION, wanted_offset=0, max_batch_bytes=_LIMIT_BYTES)
    assert decoded(piece.payload) == found


def test_log_append_time_of_a_broker() -> None:
    ((built, header),) = _batches("stamped")
    assert judge(header, 0, _LIMIT_BYTES, False) == (Verdict.REENCODE, Reason.LOG_APPEND_TIME)
    found = _records(built, header)
    assert {record.timestamp for record in found} == {header.max_timestamp}
    (piece,) = reencode(built, 0, header, TOPIC, PARTITION, wanted_offset=0, max_batch_bytes=_LIMIT_BYTES)
    assert decoded(piece.payload) == found == read_by_aiokafka(piece.payload)


def test_committed_and_aborted_transactions() -> None:
    batches = _batches("txn")
    producer_id = batches[0][1].producer_id
    # What a broker answers to a fetch from offset 0: the aborted ones by producer id and first offset.
    aborted = AbortedTransactions([(producer_id, 4), (producer_id, 12)])
    passed, markers = [], []
    for built, header in batches:
        verdict, reason = judge(header, 0, _LIMIT_BYTES, aborted.is_aborted(header))
        if reason is Reason.CONTROL:
            markers.append(control_type(built, 0, header))
            aborted.on_control(header, markers[-1])
        elif verdict is Verdict.PASS:
            passed += [record.value for record in _records(built, header)]
    assert markers == [1, 0, 1, 0]
    assert passed == [b"v%d-%d" % (round_, index) for round_ in (0, 2) for index in range(3)]


def test_a_delete_horizon_with_gaps_is_written_anew() -> None:
    built, header = _batches("compacted")[0]
    assert header.has_delete_horizon
    assert judge(header, 0, _LIMIT_BYTES, False) == (Verdict.REENCODE, Reason.OFFSET_GAPS)
    (piece,) = reencode(built, 0, header, TOPIC, PARTITION, wanted_offset=0, max_batch_bytes=_LIMIT_BYTES)
    # Round 1 sent key i at 1_700_000_000_100 + i; the cleaner kept what round 2 left out, keys 1, 4, 7, ...
    assert [(record.timestamp - 1_700_000_000_100, record.key) for record in decoded(piece.payload)] == [
        (key, b"key-%d" % key) for key in range(1, 20, 3)
    ]
    assert decoded(piece.payload) == read_by_aiokafka(piece.payload)
    assert piece.runs == tuple((index, 14 + 2 * index) for index in range(7))
    assert piece.next_offset == 27


def test_a_delete_horizon_without_gaps_passes_with_its_timestamps() -> None:
    built, header = _batches("compacted")[1]
    assert header.has_delete_horizon
    assert header.base_timestamp > header.max_timestamp, "the base timestamp is the horizon"
    assert judge(header, 0, _LIMIT_BYTES, False) == (Verdict.PASS, None)
    before = contents(_records(built, header))
    restamp(built, 0, header, 4711, 0, 0)
    assert contents(decoded(built)) == before == contents(read_by_aiokafka(built))
    assert [timestamp for timestamp, *_ in before] == [1_700_000_000_200 + i for i in range(20) if (i + 2) % 3]
