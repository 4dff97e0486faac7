"""Requests that aiokafka 0.14 lacks, and their answers, as one table (Kafka protocol guide, message JSON schemas).

After the table comes a class for each request, with the arguments that callers have.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from aiokafka.protocol.admin import (
    DescribeGroupsRequest_v0,
    ListGroupsRequest_v0,
    ListGroupsRequest_v1,
    ListGroupsRequest_v2,
)
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.commit import OffsetCommitRequest_v2, OffsetCommitRequest_v3

from engine.kafka.protocol.schema import Question, api

_CLIENT = -1
"""The replica id of a client."""
_GROUP = 0
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_NOBODY, _NO_GENERATION, _NO_EPOCH, _AS_THE_BROKER_SAYS = "", -1, -1, -1

# --- the table ------------------------------------------------------------------------------------------------------

DELETE_TOPICS_6 = api(
    20,
    6,
    "topics[name:text topic_id:uuid] timeout_ms:int32",
    "throttle_time_ms:int32 responses[name:text topic_id:uuid error_code:int16 error_message:text]",
)
LIST_OFFSETS_4 = api(
    2,
    4,
    """replica_id:int32 isolation_level:int8
       topics[name:text partitions[partition:int32 current_leader_epoch:int32 timestamp:int64]]""",
    """throttle_time_ms:int32
       topics[name:text
           partitions[partition:int32 error_code:int16 timestamp:int64 offset:int64 leader_epoch:int32]]""",
    flexible=False,
)
METADATA_7 = api(
    3,
    7,
    "topics:text[] allow_auto_topic_creation:bool",
    """throttle_time_ms:int32 brokers[node_id:int32 host:text port:int32 rack:text] cluster_id:text controller_id:int32
       topics[error_code:int16 name:text is_internal:bool
           partitions[error_code:int16 partition:int32 leader:int32 leader_epoch:int32
               replicas:int32[] isr:int32[] offline:int32[]]]""",
    flexible=False,
)
METADATA_10 = api(
    3,
    10,
    """topics[topic_id:uuid name:text] allow_auto_topic_creation:bool include_cluster_authorized_operations:bool
       include_topic_authorized_operations:bool""",
    """throttle_time_ms:int32 brokers[node_id:int32 host:text port:int32 rack:text] cluster_id:text controller_id:int32
       topics[error_code:int16 name:text topic_id:uuid is_internal:bool
           partitions[error_code:int16 partition:int32 leader:int32 leader_epoch:int32
               replicas:int32[] isr:int32[] offline:int32[]]
           authorized_operations:int32] cluster_authorized_operations:int32""",
)
METADATA_12 = api(
    3,
    12,
    """topics[topic_id:uuid name:text] allow_auto_topic_creation:bool include_topic_authorized_operations:bool""",
    """throttle_time_ms:int32 brokers[node_id:int32 host:text port:int32 rack:text] cluster_id:text controller_id:int32
       topics[error_code:int16 name:text topic_id:uuid is_internal:bool
           partitions[error_code:int16 partition:int32 leader:int32 leader_epoch:int32
               replicas:int32[] isr:int32[] offline:int32[]]
           authorized_operations:int32]""",
)
OFFSET_COMMIT_8 = api(
    8,
    8,
    """group_id:text generation_id:int32 member_id:text group_instance_id:text
       topics[name:text
           partitions[partition:int32 committed_offset:int64 committed_leader_epoch:int32 metadata:text]]""",
    "throttle_time_ms:int32 topics[name:text partitions[partition:int32 error_code:int16]]",
)
OFFSET_FETCH_8 = api(
    9,
    8,
    "groups[group_id:text topics[name:text partitions:int32[]]] require_stable:bool",
    """throttle_time_ms:int32
       groups[group_id:text
           topics[name:text
               partitions[partition:int32 committed_offset:int64 committed_leader_epoch:int32 metadata:text
                   error_code:int16]]
           error_code:int16]""",
)
FIND_COORDINATOR_4 = api(
    10,
    4,
    "key_type:int8 coordinator_keys:text[]",
    """throttle_time_ms:int32
       coordinators[key:text node_id:int32 host:text port:int32 error_code:int16 error_message:text]""",
)
DESCRIBE_GROUPS_3 = api(
    15,
    3,
    "groups:text[] include_authorized_operations:bool",
    """throttle_time_ms:int32
       groups[error_code:int16 group:text state:text protocol_type:text protocol:text
           members[member_id:text client_id:text client_host:text member_metadata:bytes member_assignment:bytes]
           authorized_operations:int32]""",
    flexible=False,
)
LIST_GROUPS_4 = api(
    16,
    4,
    "states_filter:text[]",
    "throttle_time_ms:int32 error_code:int16 groups[group_id:text protocol_type:text group_state:text]",
)
LIST_GROUPS_5 = api(
    16,
    5,
    "states_filter:text[] types_filter:text[]",
    "throttle_time_ms:int32 error_code:int16 groups[group_id:text protocol_type:text group_state:text group_type:text]",
)
_ASKED_EPOCHS = "topics[name:text partitions[partition:int32 current_leader_epoch:int32 leader_epoch:int32]]"
_EPOCH_ENDS = """throttle_time_ms:int32
    topics[name:text partitions[error_code:int16 partition:int32 leader_epoch:int32 end_offset:int64]]"""
LEADER_EPOCH_2 = api(23, 2, _ASKED_EPOCHS, _EPOCH_ENDS, flexible=False)
LEADER_EPOCH_3 = api(23, 3, f"replica_id:int32 {_ASKED_EPOCHS}", _EPOCH_ENDS, flexible=False)
LOG_DIRS_4 = api(
    35,
    4,
    "topics[topic:text partitions:int32[]]",
    """throttle_time_ms:int32 error_code:int16
       results[error_code:int16 log_dir:text
           topics[name:text partitions[partition:int32 size:int64 lag:int64 is_future:bool]]
           total_bytes:int64 usable_bytes:int64]""",
)
SCRAM_USERS_0 = api(
    50,
    0,
    "users[name:text]",
    """throttle_time_ms:int32 error_code:int16 error_message:text
       results[user:text error_code:int16 error_message:text credentials[mechanism:int8 iterations:int32]]""",
)
PRODUCERS_0 = api(
    61,
    0,
    "topics[name:text partitions:int32[]]",
    """throttle_time_ms:int32
       topics[name:text
           partitions[partition:int32 error_code:int16 error_message:text
               active_producers[producer_id:int64 producer_epoch:int32 last_sequence:int32 last_timestamp:int64
                   coordinator_epoch:int32 current_txn_start_offset:int64]]]""",
)
TRANSACTIONS_0 = api(
    65,
    0,
    "transactional_ids:text[]",
    """throttle_time_ms:int32
       states[error_code:int16 transactional_id:text state:text timeout_ms:int32 start_time_ms:int64 producer_id:int64
           producer_epoch:int16 topics[name:text partitions:int32[]]]""",
)
_MEMBER = """member_id:text instance_id:text rack_id:text member_epoch:int32 client_id:text client_host:text
    subscribed_topic_names:text[] subscribed_topic_regex:text
    assignment{topic_partitions[topic_id:uuid topic_name:text partitions:int32[]]}
    target_assignment{topic_partitions[topic_id:uuid topic_name:text partitions:int32[]]}"""
_CONSUMER_GROUPS = """throttle_time_ms:int32
    groups[error_code:int16 error_message:text group_id:text group_state:text group_epoch:int32
        assignment_epoch:int32 assignor_name:text members[%s] authorized_operations:int32]"""
_ASKED_GROUPS = "group_ids:text[] include_authorized_operations:bool"
CONSUMER_GROUPS_0 = api(69, 0, _ASKED_GROUPS, _CONSUMER_GROUPS % _MEMBER)
CONSUMER_GROUPS_1 = api(69, 1, _ASKED_GROUPS, _CONSUMER_GROUPS % (_MEMBER + " member_type:int8"))
SHARE_OFFSETS_0 = api(
    90,
    0,
    "groups[group_id:text topics[name:text partitions:int32[]]]",
    """throttle_time_ms:int32
       groups[group_id:text
           topics[name:text topic_id:uuid
               partitions[partition:int32 start_offset:int64 leader_epoch:int32 error_code:int16 error_message:text]]
           error_code:int16 error_message:text]""",
)

# --- what is known about the cluster ----------------------------------------------------------------------------------


class MetadataWithIds(Question, versions=(METADATA_10, METADATA_12)):
    """Metadata with topic ids (brokers from 2.8 on). `metadata_codec` writes and reads it; here are its versions."""


class MetadataWithEpochs(Question, versions=(METADATA_7,)):
    """Metadata with leader epochs (brokers from 2.1 on; KIP-320), without creating topics. None asks for all."""

    def __init__(self, topics: list[str] | None) -> None:
        super().__init__(topics, False)


class DescribeLogDirs(Question, versions=(LOG_DIRS_4,)):
    """The disks of one broker, and the bytes of its replicas of `topics` (name -> partition count; KIP-827)."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        super().__init__([(name, list(range(count)), {}) for name, count in topics.items()])


# --- logs and producers -----------------------------------------------------------------------------------------------


class ListOffsetsWithEpochs(Question, versions=(LIST_OFFSETS_4,)):
    """Offsets at timestamps (brokers from 2.1 on); a leader with another epoch than the given one refuses (KIP-320).

    `topics` has (name, [(partition, current leader epoch, timestamp)]). `committed`: the end is the last stable offset.
    """

    def __init__(self, topics: list[tuple[str, list[tuple[int, int, int]]]], *, committed: bool = False) -> None:
        super().__init__(_CLIENT, _READ_COMMITTED if committed else _READ_UNCOMMITTED, topics)


class OffsetsForLeaderEpoch(Question, versions=(LEADER_EPOCH_2, LEADER_EPOCH_3)):
    """The end offsets of epochs in the leaders' logs (brokers from 2.1 on; KIP-320).

    `topics` has (name, [(partition, current leader epoch, epoch asked for)]).
    """

    def __init__(self, topics: list[tuple[str, list[tuple[int, int, int]]]]) -> None:
        super().__init__(topics)

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        """Fill in one version; the newer one says that a client asks."""
        who = [_CLIENT] if request_struct_class is LEADER_EPOCH_3 else []
        return request_struct_class(*who, *self.fields)


class DescribeProducers(Question, versions=(PRODUCERS_0,)):
    """The producers that a partition's leader knows (KIP-664)."""

    def __init__(self, topics: list[tuple[str, list[int]]]) -> None:
        super().__init__([(name, partitions, {}) for name, partitions in topics])


class DescribeTransactions(Question, versions=(TRANSACTIONS_0,)):
    """The state of transactions at their coordinator (KIP-664)."""

    def __init__(self, transactional_ids: list[str]) -> None:
        super().__init__(transactional_ids)


# --- groups -----------------------------------------------------------------------------------------------------------


class FindCoordinators(Question, versions=(FIND_COORDINATOR_4,)):
    """The coordinators of many groups (brokers from 3.0 on; KIP-699)."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__(_GROUP, list(groups))


class ListGroups(
    Question,
    versions=(ListGroupsRequest_v0, ListGroupsRequest_v1, ListGroupsRequest_v2, LIST_GROUPS_4, LIST_GROUPS_5),
):
    """The groups that a broker coordinates, with states (v4; KIP-518) and types (v5; KIP-848)."""

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        """Ask for all groups: the filters of the version are empty."""
        empty: dict[str, Any] = {"tags": {}}
        return request_struct_class(*(empty.get(name, []) for name in request_struct_class.SCHEMA.names))


class DescribeGroups(Question, versions=(DescribeGroupsRequest_v0, DESCRIBE_GROUPS_3)):
    """Groups of the classic protocol; aiokafka's v3 reads the operations once after all groups, not after each."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__(list(groups), False)

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        """Ask without the operations; the oldest version has no field for them."""
        return request_struct_class(*self.fields[: len(request_struct_class.SCHEMA.names)])


class ConsumerGroupDescribe(Question, versions=(CONSUMER_GROUPS_0, CONSUMER_GROUPS_1)):
    """Groups of the newer protocol (KIP-848), which DescribeGroups always reports as dead."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__(list(groups), False)


class DescribeShareOffsets(Question, versions=(SHARE_OFFSETS_0,)):
    """Where share groups start in all topics that they read (KIP-932; brokers from 4.1 on)."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__([(group, None, {}) for group in groups])


class DeleteTopicById(Question, versions=(DELETE_TOPICS_6,)):
    """One topic by its id, so that a topic of the same name that was created since stays (KIP-516; from 2.8 on)."""

    def __init__(self, topic_id: UUID, timeout_ms: int) -> None:
        super().__init__([(None, topic_id, {})], timeout_ms)


class DescribeScramUsers(Question, versions=(SCRAM_USERS_0,)):
    """All users with SCRAM credentials, and their mechanisms, without the credentials (KIP-554; from 2.7 on)."""

    def __init__(self) -> None:
        super().__init__(None)


class FetchOffsets(Question, versions=(OFFSET_FETCH_8,)):
    """All committed offsets of many groups (brokers from 3.0 on; KIP-709).

    `stable`: a partition with a transactional commit still open gets error 88 in place of its older offset (KIP-447).
    """

    def __init__(self, groups: Sequence[str], *, stable: bool) -> None:
        super().__init__([(group, None, {}) for group in groups], stable)


class CommitOffsets(Question, versions=(OffsetCommitRequest_v2, OffsetCommitRequest_v3, OFFSET_COMMIT_8)):
    """A commit without a member: member "", generation -1, leader epoch -1; a group with members refuses it.

    `topics` has (name, [(partition, offset, metadata)]).
    """

    def __init__(self, group: str, topics: Sequence[tuple[str, Sequence[tuple[int, int, str]]]]) -> None:
        super().__init__(group, topics)

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        """Fill in one version: the newest has an epoch in each row, the others a retention."""
        group, topics = self.fields
        who = group, _NO_GENERATION, _NOBODY
        if request_struct_class is not OFFSET_COMMIT_8:
            return request_struct_class(*who, _AS_THE_BROKER_SAYS, [(name, list(rows)) for name, rows in topics])
        tagged: list[Any] = [
            (name, [(partition, offset, _NO_EPOCH, metadata, {}) for partition, offset, metadata in rows], {})
            for name, rows in topics
        ]
        return request_struct_class(*who, None, tagged, {})


def text_id(topic_id: UUID) -> str:
    """Return a topic id as text, empty for the zero id of a broker that has none."""
    return str(topic_id) if topic_id.int else ""
