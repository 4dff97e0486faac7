"""The network between a test and a store: what clients of a store see while it is slow, throttled or away."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from engine.jobs.runtime.storage_access import access_of
from tests.harness.store_path import RequestHead, StorePath, store_path
from tests.unit.engine.jobs.bucket import URI, bucket

pytestmark = [pytest.mark.local]

TABLE = f"{URI}/numbers"
SCHEMA = pa.schema([("number", pa.int64())])
DELAY_S = 0.05


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[StorePath]:
    with bucket() as environment, store_path(int(environment["AWS_ENDPOINT_URL"].rpartition(":")[2])) as made:
        for name, value in (environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{made.port}"}).items():
            monkeypatch.setenv(name, value)
        yield made


def quick() -> dict[str, str]:
    """Return options of a client that tries again at once."""
    return access_of(TABLE) | {"backoff_config.init_backoff": "10ms", "backoff_config.max_backoff": "20ms"}


def append(numbers: range) -> None:
    write_deltalake(TABLE, pa.table({"number": numbers}, schema=SCHEMA), mode="append", storage_options=quick())


def numbers() -> list[int]:
    found: list[int] = DeltaTable(TABLE, storage_options=quick()).to_pyarrow_table()["number"].to_pylist()
    return sorted(found)


def test_a_store_that_is_slow_and_throttled_gets_each_write_once(path: StorePath) -> None:
    path.slow(DELAY_S)
    path.throttle(4)
    DeltaTable.create(TABLE, SCHEMA, storage_options=quick())
    append(range(3))
    append(range(3, 6))
    assert numbers() == [0, 1, 2, 3, 4, 5]
    assert path.refused > 0


def test_a_store_that_is_away_is_reached_when_it_is_back(path: StorePath) -> None:
    DeltaTable.create(TABLE, SCHEMA, storage_options=quick())
    append(range(3))
    path.go_away()
    with pytest.raises(OSError, match="Generic S3 error"):
        DeltaTable(TABLE, storage_options=quick() | {"max_retries": "0"})
    assert path.turned_away > 0
    path.come_back()
    append(range(3, 6))
    assert numbers() == [0, 1, 2, 3, 4, 5]


def test_a_commit_whose_answer_is_lost_is_there_once(path: StorePath) -> None:
    DeltaTable.create(TABLE, SCHEMA, storage_options=quick())
    path.go_away_after(b"PUT /kept/store/numbers/_delta_log/00000000000000000001.json")
    with pytest.raises(OSError, match="Generic S3 error"):
        append(range(3))
    path.wait_gone(60)
    path.come_back()
    assert numbers() == [0, 1, 2]


async def test_a_body_in_chunks_is_passed_on_to_its_end() -> None:
    body = b"5\r\nhello\r\n3;a=b\r\n\r\n!\r\n0\r\nx-sum: 1\r\n\r\n"
    reader = asyncio.StreamReader()
    reader.feed_data(body + b"GET / HTTP/1.1")
    head = RequestHead(b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert b"".join([data async for data in head.body(reader)]) == body


def test_a_refusal_of_head_has_no_body() -> None:
    assert RequestHead(b"HEAD / HTTP/1.1\r\n\r\n").refusal().endswith(b"Content-Length: 0\r\n\r\n")
    assert b"<Code>SlowDown</Code>" in RequestHead(b"GET / HTTP/1.1\r\n\r\n").refusal()
