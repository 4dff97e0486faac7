"""Requests that aiokafka 0.14 lacks, declared on its protocol classes (Kafka protocol guide, message JSON schemas)."""

from io import BytesIO
from uuid import UUID

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)


class Uuid(AbstractType[UUID]):
    """Sixteen bytes; topic ids (KIP-516)."""

    @classmethod
    def encode(cls, value: UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        return UUID(bytes=data.read(16))


_NAME = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)


class MetadataResponse_v12(Response):
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(("node_id", Int32), ("host", _NAME), ("port", Int32), ("rack", _NAME), _TAGS),
        ),
        ("cluster_id", _NAME),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _NAME),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class MetadataRequest_v12(RequestStruct):
    API_KEY = 3
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponse_v12
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", _NAME), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    )


class MetadataWithIds(Request[MetadataRequest_v12]):
    """Metadata with topic ids (v12, brokers from 3.1 on); never creates a topic. `topics` None asks for all."""

    API_KEY = 3

    def __init__(self, topics: list[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[MetadataRequest_v12]) -> MetadataRequest_v12:
        nobody = UUID(int=0)
        topics: list[tuple[UUID, str, dict[int, bytes]]] | None = (
            None if self._topics is None else [(nobody, name, {}) for name in self._topics]
        )
        return request_struct_class(topics, False, False, {})


_TEXT = String("utf-8")


class MetadataResponse_v7(Response):
    API_KEY = 3
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("name", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline", Array(Int32)),
                    ),
                ),
            ),
        ),
    )


class MetadataRequest_v7(RequestStruct):
    API_KEY = 3
    API_VERSION = 7
    RESPONSE_TYPE = MetadataResponse_v7
    SCHEMA = Schema(("topics", Array(_TEXT)), ("allow_auto_topic_creation", Boolean))


class MetadataWithEpochs(Request[MetadataRequest_v7]):
    """Metadata with leader epochs (v7, brokers from 2.1 on; KIP-320), without creating topics. None asks for all."""

    API_KEY = 3

    def __init__(self, topics: list[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[MetadataRequest_v7]) -> MetadataRequest_v7:
        return request_struct_class(self._topics, False)


class OffsetsForLeaderEpochResponse_v3(Response):
    API_KEY = 23
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("name", _TEXT),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class OffsetsForLeaderEpochRequest_v3(RequestStruct):
    API_KEY = 23
    API_VERSION = 3
    RESPONSE_TYPE = OffsetsForLeaderEpochResponse_v3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("name", _TEXT),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32))),
            ),
        ),
    )


class OffsetsForLeaderEpoch(Request[OffsetsForLeaderEpochRequest_v3]):
    """Where epochs end in the leaders' logs (v3, brokers from 2.3 on; KIP-320).

    `topics` has (name, [(partition, current leader epoch, epoch asked for)]).
    """

    API_KEY = 23

    def __init__(self, topics: list[tuple[str, list[tuple[int, int, int]]]]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[OffsetsForLeaderEpochRequest_v3]) -> OffsetsForLeaderEpochRequest_v3:
        return request_struct_class(-1, self._topics)


class DescribeProducersResponse_v0(Response):
    API_KEY = 61
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _NAME),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", _NAME),
                        (
                            "active_producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("producer_epoch", Int32),
                                ("last_sequence", Int32),
                                ("last_timestamp", Int64),
                                ("coordinator_epoch", Int32),
                                ("current_txn_start_offset", Int64),
                                _TAGS,
                            ),
                        ),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeProducersRequest_v0(RequestStruct):
    API_KEY = 61
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeProducersResponse_v0
    SCHEMA = Schema(
        ("topics", CompactArray(("name", _NAME), ("partitions", CompactArray(Int32)), _TAGS)),
        _TAGS,
    )


class DescribeProducers(Request[DescribeProducersRequest_v0]):
    """The producers a partition's leader remembers (KIP-664)."""

    API_KEY = 61

    def __init__(self, topics: list[tuple[str, list[int]]]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[DescribeProducersRequest_v0]) -> DescribeProducersRequest_v0:
        return request_struct_class([(name, partitions, {}) for name, partitions in self._topics], {})


class DescribeTransactionsResponse_v0(Response):
    API_KEY = 65
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "states",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", _NAME),
                ("state", _NAME),
                ("timeout_ms", Int32),
                ("start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                ("topics", CompactArray(("name", _NAME), ("partitions", CompactArray(Int32)), _TAGS)),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class DescribeTransactionsRequest_v0(RequestStruct):
    API_KEY = 65
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeTransactionsResponse_v0
    SCHEMA = Schema(("transactional_ids", CompactArray(_NAME)), _TAGS)


class DescribeTransactions(Request[DescribeTransactionsRequest_v0]):
    """The state of transactions at their coordinator (KIP-664)."""

    API_KEY = 65

    def __init__(self, transactional_ids: list[str]) -> None:
        self._transactional_ids = transactional_ids

    def build(self, request_struct_class: type[DescribeTransactionsRequest_v0]) -> DescribeTransactionsRequest_v0:
        return request_struct_class(self._transactional_ids, {})


def text_id(topic_id: UUID) -> str:
    """Return a topic id as text, empty for the zero id of a broker that has none."""
    return str(topic_id) if topic_id.int else ""
