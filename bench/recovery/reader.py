"""The reader: reads every committed record of a topic by aiokafka's stock consumer, without any code of the mirror.

A process: `python -m bench.recovery.reader SPEC`. It writes two arrays per partition to a file, `numbers_P` and
`offsets_P`, prints `{"records": ...}` and exits. A record whose value names another partition is an error.
"""

import asyncio
import json
import struct
import sys
from array import array
from pathlib import Path

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.recovery.compare import Numbers
from bench.recovery.records import decode_record

_STALL_S = 60.0
_FETCH_BYTES = 4 * 1024 * 1024


class ReadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The topic, and the file of the arrays."""

    bootstrap: str
    topic: str
    partitions: int
    file: str


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers and offsets of each partition's records, in the order of reading."""

    numbers: dict[int, Numbers]
    offsets: dict[int, Numbers]


def read_copy(file: Path) -> Copy:
    """Read the file of a reader."""
    with np.load(file) as arrays:
        names = [name.split("_") for name in arrays.files]
        return Copy(
            numbers={int(at): arrays[f"{kind}_{at}"] for kind, at in names if kind == "numbers"},
            offsets={int(at): arrays[f"{kind}_{at}"] for kind, at in names if kind == "offsets"},
        )


async def read(spec: ReadSpec) -> tuple[dict[int, "array[int]"], dict[int, "array[int]"]]:
    """Read every partition to its present end. Raises TimeoutError if nothing comes for a minute."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=spec.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_partition_fetch_bytes=_FETCH_BYTES,
        max_poll_records=20_000,
    )
    partitions = [TopicPartition(spec.topic, number) for number in range(spec.partitions)]
    numbers = {one.partition: array("q") for one in partitions}
    offsets = {one.partition: array("q") for one in partitions}
    await consumer.start()
    try:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        left = set(partitions)
        loop = asyncio.get_running_loop()
        last_at = loop.time()
        while left:
            for one in [one for one in left if await consumer.position(one) >= ends[one]]:
                left.discard(one)
                consumer.pause(one)
            batches = await consumer.getmany(*left, timeout_ms=100) if left else {}
            if batches:
                last_at = loop.time()
            elif left and loop.time() - last_at > _STALL_S:
                raise TimeoutError(f"{min(left)}: no record for {_STALL_S:.0f} s before the end {ends[min(left)]}")
            for one, records in batches.items():
                for record in records:
                    partition, number = _identify(record.value)
                    if partition != one.partition:
                        raise ValueError(f"{one} has a record of partition {partition} at {record.offset}")
                    numbers[partition].append(number)
                    offsets[partition].append(record.offset)
    finally:
        await consumer.stop()
    return numbers, offsets


def _identify(value: bytes | None) -> tuple[int, int]:
    try:
        return decode_record(value or b"")
    except struct.error:
        raise ValueError(f"not a record of the load: {value!r}") from None


def main(spec: ReadSpec) -> None:
    """Read and write the arrays."""
    numbers, offsets = asyncio.run(read(spec))
    arrays = {
        f"{kind}_{partition}": np.array(values, dtype=np.int64)
        for kind, side in (("numbers", numbers), ("offsets", offsets))
        for partition, values in side.items()
    }
    with Path(spec.file).open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    print(json.dumps({"records": sum(map(len, numbers.values()))}), flush=True)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=ReadSpec))
