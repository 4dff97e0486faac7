"""Reading and making commits of groups, newer than aiokafka 0.14 does (Kafka protocol guide, message JSON schemas)."""

from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest_v2, OffsetCommitRequest_v3
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

OFFSET_FETCH_KEY, OFFSET_FETCH_BATCHED = 9, 8
_NAME = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)


class OffsetFetchResponse_v8(Response):
    API_KEY = 9
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("group_id", _NAME),
                (
                    "topics",
                    CompactArray(
                        ("name", _NAME),
                        (
                            "partitions",
                            CompactArray(
                                ("partition", Int32),
                                ("committed_offset", Int64),
                                ("committed_leader_epoch", Int32),
                                ("metadata", _NAME),
                                ("error_code", Int16),
                                _TAGS,
                            ),
                        ),
                        _TAGS,
                    ),
                ),
                ("error_code", Int16),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class OffsetFetchRequest_v8(RequestStruct):
    API_KEY = 9
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = OffsetFetchResponse_v8
    SCHEMA = Schema(
        (
            "groups",
            CompactArray(
                ("group_id", _NAME),
                ("topics", CompactArray(("name", _NAME), ("partitions", CompactArray(Int32)), _TAGS)),
                _TAGS,
            ),
        ),
        ("require_stable", Boolean),
        _TAGS,
    )


class FetchOffsets(Request[OffsetFetchRequest_v8]):
    """All committed offsets of many groups (v8, brokers from 3.0 on; KIP-709).

    `stable`: a partition with a transactional commit still open gets error 88 in place of its older offset (KIP-447).
    """

    API_KEY = 9

    def __init__(self, groups: Sequence[str], *, stable: bool) -> None:
        self._groups, self._stable = groups, stable

    def build(self, request_struct_class: type[OffsetFetchRequest_v8]) -> OffsetFetchRequest_v8:
        return request_struct_class([(group, None, {}) for group in self._groups], self._stable, {})


class OffsetCommitResponse_v8(Response):
    API_KEY = 8
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _NAME), ("partitions", CompactArray(("partition", Int32), ("error_code", Int16), _TAGS)), _TAGS
            ),
        ),
        _TAGS,
    )


class OffsetCommitRequest_v8(RequestStruct):
    API_KEY = 8
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = OffsetCommitResponse_v8
    SCHEMA = Schema(
        ("group_id", _NAME),
        ("generation_id", Int32),
        ("member_id", _NAME),
        ("group_instance_id", _NAME),
        (
            "topics",
            CompactArray(
                ("name", _NAME),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("committed_offset", Int64),
                        ("committed_leader_epoch", Int32),
                        ("metadata", _NAME),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


_NOBODY, _NO_GENERATION, _NO_EPOCH, _AS_THE_BROKER_SAYS = "", -1, -1, -1


class CommitOffsets(Request[OffsetCommitRequest_v2 | OffsetCommitRequest_v3 | OffsetCommitRequest_v8]):
    """A commit by nobody: member "", generation -1, leader epoch -1; a group with members refuses it.

    `topics` has (name, [(partition, offset, metadata)]).
    """

    API_KEY = 8

    def __init__(self, group: str, topics: Sequence[tuple[str, Sequence[tuple[int, int, str]]]]) -> None:
        self._group, self._topics = group, topics

    def build(self, request_struct_class: Any) -> Any:
        if request_struct_class.API_VERSION < OffsetCommitRequest_v8.API_VERSION:
            topics = [(name, list(rows)) for name, rows in self._topics]
            return request_struct_class(self._group, _NO_GENERATION, _NOBODY, _AS_THE_BROKER_SAYS, topics)
        tagged: list[Any] = [
            (name, [(partition, offset, _NO_EPOCH, metadata, {}) for partition, offset, metadata in rows], {})
            for name, rows in self._topics
        ]
        return request_struct_class(self._group, _NO_GENERATION, _NOBODY, None, tagged, {})
