"""Requests that aiokafka 0.14 lacks, declared on its protocol classes (Kafka protocol guide, message JSON schemas)."""

from io import BytesIO
from uuid import UUID

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
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
