"""Plans the topics of one Spark partition after the join, with the pure policy that the loop uses. Knows no Spark."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from engine.flow.config_history.look import unpack_defaults, with_defaults
from engine.flow.config_sync.planning import Compared, ConfigSyncOptions, plan_snapshot
from engine.flow.config_sync.snapshot import Snapshot
from engine.jobs.config_sync.describe import UNASKED, unpack_configs, unpack_known
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry, WantedConfigs

_NO_ROW = "a task of Spark that ran again described no copy of {}"


class JoinedRow(NamedTuple):
    """A source topic beside its copy; a copy that does not exist has no partitions. None: nobody described the copy."""

    copy: str
    topic: str
    partitions: int
    replicas: int
    known: bytes
    configs: bytes
    why: str
    copy_partitions: int | None = None
    copy_replicas: int | None = None
    copy_configs: bytes | None = None
    copy_why: str | None = None
    defaults: bytes = b""
    copy_defaults: bytes | None = None


class _Shared:
    """Unpacks configs; equal bytes give one mapping, so that what is worked out for it is worked out once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, ConfigEntry]] = {}

    def unpack(self, data: bytes) -> Mapping[str, ConfigEntry]:
        if data not in self._known:
            self._known[data] = unpack_configs(data)
        return self._known[data]


def verdict(options: ConfigSyncOptions, rows: Iterable[JoinedRow], *, whole: bool = False) -> Iterator[bytes]:
    """Plan these topics; one packed Compared. `whole`: with a look at them.

    Its `unread` has UNASKED if the tasks before did not describe all: they ran again, and a cluster was away then.
    """
    source, target, unread = dict[str, TopicState](), dict[str, TopicState](), dict[str, str]()
    known, topics, shared = dict[str, Mapping[str, str]](), list[str](), _Shared()
    defaults, copy_defaults = list[bytes](), list[bytes]()
    for row in rows:
        topics.append(row.topic)
        defaults.append(bytes(row.defaults))
        copy_defaults.append(bytes(row.copy_defaults or b""))
        if row.known:
            known[row.topic] = unpack_known(bytes(row.known))
        if row.why:
            unread[row.topic] = row.why
            continue
        configs = shared.unpack(bytes(row.configs))
        source[row.topic] = TopicState(partitions=row.partitions, replicas=row.replicas, configs=configs)
        if row.copy_partitions is None or row.copy_replicas is None:
            unread[UNASKED] = _NO_ROW.format(row.topic)
            continue
        if not row.copy_partitions:
            continue
        if row.copy_why:
            unread[row.copy] = row.copy_why
            continue
        theirs = shared.unpack(bytes(row.copy_configs or b""))
        target[row.copy] = TopicState(partitions=row.copy_partitions, replicas=row.copy_replicas, configs=theirs)
    snapshot = Snapshot(source=source, target=target, unread=unread, whole=whole)
    found = plan_snapshot(topics, snapshot, known, options, WantedConfigs(options.configs), shapes=False)
    if found.look is not None:
        look = with_defaults(
            found.look, *(map(unpack_defaults, filter(None, one)) for one in (defaults, copy_defaults))
        )
        found = msgspec.structs.replace(found, look=look)
    yield msgspec.msgpack.encode(found)


def unpack_verdict(data: bytes) -> Compared:
    """Unpack the plan of one partition."""
    return msgspec.msgpack.decode(data, type=Compared)
