"""Fetch 12 and 13, Produce 13 as schemas of aiokafka's types, after Kafka's own message definitions (`*.json`)."""

from typing import Any

from aiokafka.protocol.types import (
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    UnsignedVarInt32,
)

from engine.kafka.protocol.schema import Uuid


class Tags:
    """A tag section (KIP-482); aiokafka's own refuses tag 0."""

    @classmethod
    def encode(cls, value: dict[int, bytes]) -> bytes:
        rows = [UnsignedVarInt32.encode(tag) + UnsignedVarInt32.encode(len(row)) + row for tag, row in value.items()]
        return bytes(UnsignedVarInt32.encode(len(value)) + b"".join(rows))


TEXT = CompactString("utf-8")
TAGS = ("tags", Tags)


def fetch_request(topic: Any) -> Schema:
    """FetchRequest.json: `topic` is a name (12) or a Uuid (13)."""
    partition = CompactArray(
        ("partition", Int32),
        ("current_leader_epoch", Int32),
        ("fetch_offset", Int64),
        ("last_fetched_epoch", Int32),
        ("log_start_offset", Int64),
        ("partition_max_bytes", Int32),
        TAGS,
    )
    return Schema(
        ("replica_id", Int32),
        ("max_wait_ms", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("session_id", Int32),
        ("session_epoch", Int32),
        ("topics", CompactArray(("topic", topic), ("partitions", partition), TAGS)),
        ("forgotten", CompactArray(("topic", topic), ("partitions", CompactArray(Int32)), TAGS)),
        ("rack_id", TEXT),
        TAGS,
    )


def fetch_response(topic: Any) -> Schema:
    """FetchResponse.json, with the tags of the response header in front."""
    partition = CompactArray(
        ("partition", Int32),
        ("error_code", Int16),
        ("high_watermark", Int64),
        ("last_stable_offset", Int64),
        ("log_start_offset", Int64),
        ("aborted", CompactArray(("producer_id", Int64), ("first_offset", Int64), TAGS)),
        ("preferred_read_replica", Int32),
        ("records", CompactBytes),
        TAGS,
    )
    return Schema(
        ("header_tags", Tags),
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("session_id", Int32),
        ("topics", CompactArray(("topic", topic), ("partitions", partition), TAGS)),
        TAGS,
    )


PRODUCE_REQUEST = Schema(
    ("transactional_id", TEXT),
    ("acks", Int16),
    ("timeout_ms", Int32),
    (
        "topics",
        CompactArray(
            ("topic_id", Uuid),
            ("partitions", CompactArray(("index", Int32), ("records", CompactBytes), TAGS)),
            TAGS,
        ),
    ),
    TAGS,
)
PRODUCE_RESPONSE = Schema(
    ("header_tags", Tags),
    (
        "topics",
        CompactArray(
            ("topic_id", Uuid),
            (
                "partitions",
                CompactArray(
                    ("index", Int32),
                    ("error_code", Int16),
                    ("base_offset", Int64),
                    ("log_append_time_ms", Int64),
                    ("log_start_offset", Int64),
                    ("record_errors", CompactArray(("index", Int32), ("message", TEXT), TAGS)),
                    ("error_message", TEXT),
                    TAGS,
                ),
            ),
            TAGS,
        ),
    ),
    ("throttle_time_ms", Int32),
    TAGS,
)
