"""The control: a plain producer that writes to the target in parallel with the mirror, without a proxy, with acks=all.

If its records make no progress either, the cause is the target and not the mirror. For example, a replica that comes
back delays every partition whose in-sync replicas it joins.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.admin import create_topic
from bench.recovery.helper import Helper
from bench.recovery.load import LoadSpec
from bench.recovery.opening import FLOWING_S
from bench.recovery.stage import Stage

TOPIC = "bench-control"
PARTITIONS = 8
_PER_S = 20 * PARTITIONS
_REPLICAS = 3


@contextlib.contextmanager
def controlled(stage: Stage, folder: Path, *, wanted: bool) -> Iterator[bool]:
    """Let the control write during the block; yields whether it does. Raises BenchError."""
    if not wanted:
        yield False
        return
    address = stage.target.bootstrap_servers
    replicas = min(_REPLICAS, len(stage.target.brokers))
    asyncio.run(create_topic(address, TOPIC, PARTITIONS, replicas=replicas))
    spec = LoadSpec(bootstrap=address, topic=TOPIC, partitions=PARTITIONS, per_s=_PER_S)
    with Helper("bench.recovery.load", spec, folder / "control.log") as load:
        load.hear(FLOWING_S)
        yield True
