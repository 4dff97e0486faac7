"""An incremental fetch session (KIP-227): tracks what the broker remembers, and plans what the next fetch must name.

The first fetch names every partition, and the broker may answer with a session id. After that a fetch names only new
and changed partitions (offset, epochs, byte limit) and those to forget, and the answer leaves out partitions without
news. A broker without a free slot answers with id 0: the next fetch is full again and asks for a slot again.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from engine.flow.ports.ports import PartitionFetch
from policies.model import TopicPartition

_NONE, _SESSION_NOT_FOUND = 0, 70
SESSION_ERRORS = frozenset({_SESSION_NOT_FOUND, 71, 100, 103, 106})
"""Session id not found, invalid epoch; topic id unknown, inconsistent, or not of the kind that the session has."""
_NO_SESSION, _FINAL, _FIRST = 0, -1, 0
_LAST_EPOCH = 2**31 - 1
NO_ID = UUID(int=0)


class FetchPlan(msgspec.Struct, frozen=True):
    """The content of one fetch: its session fields, the partitions it names and those it forgets.

    `by_id`: topics go by id (Fetch v13). In a full fetch `named` has all wanted partitions.
    """

    session_id: int
    epoch: int
    by_id: bool
    named: Sequence[PartitionFetch]
    forgotten: Sequence[TopicPartition]


class FetchSession:
    """The session of one connection, for one fetch at a time: `plan`, send, `on_answer`, and so on.

    `ids_spoken`: the broker accepts topic ids. `lasting=False` never opens a session.
    """

    def __init__(self, *, ids_spoken: bool, lasting: bool = True) -> None:
        self._ids_spoken = ids_spoken
        self._first = _FIRST if lasting else _FINAL
        self._id, self._epoch = _NO_SESSION, self._first
        self._by_id = False
        self._members: dict[TopicPartition, PartitionFetch] = {}
        self._ids: dict[str, UUID] = {}
        self.names: dict[bytes, str] = {}
        """The topics behind the ids that an answer may have, as their bytes."""

    def plan(self, wanted: Sequence[PartitionFetch], topic_ids: Mapping[str, UUID]) -> FetchPlan:
        """Return what to send so that the broker fetches exactly `wanted`, which has each partition once."""
        if self._epoch > 0:
            members = self._members
            changed = [one for one in wanted if members.get(one.partition) != one]
            if self._take_ids(changed, topic_ids):
                return FetchPlan(self._id, self._epoch, self._by_id, changed, self._change(changed, wanted))
            self._epoch = self._first  # a topic was created again or has no id: the old session ends with this fetch
        self._members = {one.partition: one for one in wanted}
        self._ids = {one.partition.topic: topic_ids.get(one.partition.topic, NO_ID) for one in wanted}
        self._by_id = self._ids_spoken and all(found.int for found in self._ids.values())
        self.names = {topic_id.bytes: topic for topic, topic_id in self._ids.items()}
        return FetchPlan(self._id, self._epoch, self._by_id, wanted, ())

    def _take_ids(self, changed: Sequence[PartitionFetch], topic_ids: Mapping[str, UUID]) -> bool:
        """Store the ids of new topics; return False if the session cannot name a topic with its present id."""
        if self._by_id:
            for one in changed:
                topic = one.partition.topic
                found, known = topic_ids.get(topic), self._ids.get(topic)
                if found is None or (known is not None and known != found):
                    return False
                if known is None:
                    self._ids[topic], self.names[found.bytes] = found, topic
        return True

    def _change(self, changed: Sequence[PartitionFetch], wanted: Sequence[PartitionFetch]) -> Sequence[TopicPartition]:
        """Update the members of the session; return the partitions that are no longer wanted."""
        for one in changed:
            self._members[one.partition] = one
        if len(self._members) == len(wanted):
            return ()
        kept = {one.partition for one in wanted}
        forgotten = [partition for partition in self._members if partition not in kept]
        for partition in forgotten:
            del self._members[partition]
        return forgotten

    def on_answer(self, error_code: int, session_id: int) -> bool:
        """Process the answer to the last plan; return True if a full fetch must follow because the session is lost."""
        was_open = self._epoch > 0
        if error_code == _NONE and (session_id == self._id or not was_open):
            kept = session_id != _NO_SESSION and self._first == _FIRST
            self._id, self._epoch = (session_id, self._after()) if kept else (_NO_SESSION, self._first)
            return False
        # The next full fetch names the old session, which closes it.
        self._id = _NO_SESSION if error_code in (_NONE, _SESSION_NOT_FOUND) else self._id
        self._epoch = self._first
        return was_open and error_code in SESSION_ERRORS

    def _after(self) -> int:
        return 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def topic_id(self, topic: str) -> UUID:
        """Return the topic id that the session uses, the zero id if it has none."""
        return self._ids.get(topic, NO_ID)

    def asked(self, partition: TopicPartition) -> bool:
        """Whether an answer may have this partition."""
        return partition in self._members
