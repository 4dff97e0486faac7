"""An application in a separate process that tests kill: `python -m tests.harness.reader_process SERVERS GROUP TOPIC`.

A stock aiokafka consumer that prints the value of every processed record, a line each, and commits only afterwards, now
and then, as an application does that must not lose records.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer

from engine.base.clock import now_s

_COMMIT_S = 0.3


async def main(servers: str, group: str, topic: str) -> None:
    """Read until killed."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    committed_at_s = now_s()
    while True:
        found = await consumer.getmany(timeout_ms=100, max_records=50)
        for records in found.values():
            for record in records:
                sys.stdout.write(record.value.decode().strip() + "\n")
        sys.stdout.flush()
        if found and now_s() - committed_at_s >= _COMMIT_S:
            await consumer.commit()
            committed_at_s = now_s()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
