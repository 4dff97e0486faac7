"""CPU cost of one config check in raymirror's process: `python -m bench.micro.configs [--topics 50000]`.

No brokers: the answers of two clusters are ready as bytes. The timed code (CPU) reads them, compares, plans and stores.
"""

import argparse
import asyncio
import json
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from engine.flow.config_sync.planning import ConfigSyncOptions, Scope
from engine.flow.config_sync.sync import ConfigSync
from engine.flow.ports.ports import Answers
from engine.kafka.admin.topic_shapes import read_shapes
from engine.kafka.protocol.admin_codec import ConfigsReader
from engine.kafka.protocol.codec import uvarint
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import AclRules
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import DEFAULT, TOPIC_OVERRIDE, ConfigEntry, ConfigRules

_DEFAULTS, _PARTITIONS, _ROUNDS = 33, 4, 3
_KINDS = (1, 100)
"""Numbers of different values that topics have in one of their two own configs."""
_ONE_IN = 10
"""Share of the topics with a changed config."""


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _entry(name: str, value: str, source: int) -> bytes:
    return _text(name) + _text(value) + struct.pack(">?b?i", False, source, False, 0)


_ALL_DEFAULTS = b"".join(_entry(f"a.default.of.kafka.{n:02}", str(n * 1000), DEFAULT) for n in range(_DEFAULTS))


def _topic(name: str, own: Mapping[str, str], *, whole: bool) -> bytes:
    entries = b"".join(_entry(config, value, TOPIC_OVERRIDE) for config, value in own.items())
    head = struct.pack(">hhb", 0, -1, 2) + _text(name)
    if not whole:
        return head + struct.pack(">i", len(own)) + entries
    return head + struct.pack(">i", len(own) + _DEFAULTS) + _ALL_DEFAULTS + entries


def _shapes(names: Sequence[str]) -> bytes:
    partition = bytes(14) + b"\x02" + bytes(4) + b"\x02" + bytes(4) + b"\x01\x00"
    each = [
        bytes(2) + uvarint(len(name) + 1) + name.encode() + uuid.uuid4().bytes + b"\0"
        + uvarint(_PARTITIONS + 1) + partition * _PARTITIONS + bytes(5)
        for name in names
    ]  # fmt: skip
    return bytes(5) + b"\x01\x00" + bytes(4) + uvarint(len(names) + 1) + b"".join(each)


class _Cluster:
    """Answers requests about topics and configs from bytes; no other request comes."""

    def __init__(self, topics: Mapping[str, Mapping[str, str]], *, whole: bool) -> None:
        self._answers = {name: _topic(name, own, whole=whole) for name, own in topics.items()}
        self._shapes = _shapes(list(topics))
        self._reader = ConfigsReader()

    async def topics(self, names: Sequence[str] | None) -> dict[str, TopicState]:
        found = read_shapes(self._shapes)
        return {name: TopicState(partitions=one.partitions, replicas=one.replicas) for name, one in found.items()}

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        body = struct.pack(">ii", 0, len(topics)) + b"".join(self._answers[name] for name in topics)
        return Answers({one.topic: one.configs for one in self._reader.read(body)}, {})


def _look_s(topics: int, kinds: int) -> float:
    """Return the CPU seconds of the cheapest check except the first."""
    names = [f"topic-{number:06}" for number in range(topics)]
    own = {
        name: {"retention.ms": str(600_000_000 + n % kinds), "segment.bytes": "2000000"} for n, name in enumerate(names)
    }
    copies = {
        f"A.{name}": one if n % _ONE_IN else {**one, "retention.ms": "1"} for n, (name, one) in enumerate(own.items())
    }
    selection = TopicSelection(FlowName("A", "B"), DefaultNaming())
    options = ConfigSyncOptions(replication_factor=1, configs=ConfigRules(), acls=AclRules(selection=selection))
    source: Any = _Cluster(own, whole=True)
    target: Any = _Cluster(copies, whole=False)
    sync = ConfigSync(options, source, target)
    found = []
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        looked = asyncio.run(sync.compare(Scope(acls=False, shapes=False)))
        found.append(time.process_time() - began_s)
        assert len(looked.changes) == -(-topics // _ONE_IN)
    return min(found[1:])


def main() -> None:
    """Print seconds of CPU per check, and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=50_000)
    topics = parser.parse_args().topics
    found = {f"{kinds} kinds": round(_look_s(topics, kinds), 3) for kinds in _KINDS}
    print(f"{topics:,} topics: {found} s of CPU per check")
    print(json.dumps({"topics": topics, "look_cpu_s": found}))


if __name__ == "__main__":
    main()
