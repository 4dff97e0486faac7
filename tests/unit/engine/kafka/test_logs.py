"""A batch that a short read cannot inflate is named by what is wrong with it."""

import pytest

from engine.errors import BatchTooLarge, MalformedBatch
from engine.kafka.logs import _inflated
from engine.wire.batch import read_header
from engine.wire.bounded import InflatedTooLarge, InflateError
from policies.model import TopicPartition
from tests.fakes.source_log import SourceLog

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("failure", "error"),
    [(InflatedTooLarge("gzip", 20), BatchTooLarge), (InflateError("gzip: broken"), MalformedBatch)],
)
async def test_a_batch_that_cannot_be_inflated(
    monkeypatch: pytest.MonkeyPatch, failure: InflateError, error: type[Exception]
) -> None:
    log, limits = SourceLog(), list[int]()
    log.data(3)
    batch = memoryview(bytearray(log.fetch(0, 1)[0]))

    def raw_records(_buffer: object, _at: int, _header: object, limit_bytes: int) -> bytes:
        limits.append(limit_bytes)
        raise failure

    monkeypatch.setattr("engine.kafka.logs.raw_records", raw_records)
    with pytest.raises(error, match="t-0 at offset 0: gzip"):
        await _inflated(batch, 0, read_header(batch, 0), T0, 20)
    assert limits == [20, 20]
