"""Requests about consumer groups that aiokafka 0.14 lacks (Kafka protocol guide, message JSON schemas)."""

from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.admin import (
    DescribeGroupsRequest_v0,
    ListGroupsRequest_v0,
    ListGroupsRequest_v1,
    ListGroupsRequest_v2,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from engine.kafka.protocol.protocol import Uuid

FIND_COORDINATOR_KEY, FIND_BATCHED = 10, 4
LIST_GROUPS_KEY, LIST_STATES, LIST_TYPES = 16, 4, 5
CONSUMER_GROUP_DESCRIBE_KEY = 69
_GROUP = 0
_NAME = CompactString("utf-8")
_TEXT = String("utf-8")
_TAGS = ("tags", TaggedFields)


class FindCoordinatorResponse_v4(Response):
    API_KEY = 10
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "coordinators",
            CompactArray(
                ("key", _NAME),
                ("node_id", Int32),
                ("host", _NAME),
                ("port", Int32),
                ("error_code", Int16),
                ("error_message", _NAME),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class FindCoordinatorRequest_v4(RequestStruct):
    API_KEY = 10
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FindCoordinatorResponse_v4
    SCHEMA = Schema(("key_type", Int8), ("coordinator_keys", CompactArray(_NAME)), _TAGS)


class FindCoordinators(Request[FindCoordinatorRequest_v4]):
    """The coordinators of many groups (v4, brokers from 3.0 on; KIP-699)."""

    API_KEY = 10

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: type[FindCoordinatorRequest_v4]) -> FindCoordinatorRequest_v4:
        return request_struct_class(_GROUP, list(self._groups), {})


class ListGroupsResponse_v4(Response):
    API_KEY = 16
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("groups", CompactArray(("group_id", _NAME), ("protocol_type", _NAME), ("group_state", _NAME), _TAGS)),
        _TAGS,
    )


class ListGroupsRequest_v4(RequestStruct):
    API_KEY = 16
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ListGroupsResponse_v4
    SCHEMA = Schema(("states_filter", CompactArray(_NAME)), _TAGS)


class ListGroupsResponse_v5(Response):
    API_KEY = 16
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "groups",
            CompactArray(
                ("group_id", _NAME), ("protocol_type", _NAME), ("group_state", _NAME), ("group_type", _NAME), _TAGS
            ),
        ),
        _TAGS,
    )


class ListGroupsRequest_v5(RequestStruct):
    API_KEY = 16
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ListGroupsResponse_v5
    SCHEMA = Schema(("states_filter", CompactArray(_NAME)), ("types_filter", CompactArray(_NAME)), _TAGS)


class ListGroups(
    Request[
        ListGroupsRequest_v0 | ListGroupsRequest_v1 | ListGroupsRequest_v2 | ListGroupsRequest_v4 | ListGroupsRequest_v5
    ]
):
    """The groups that a broker coordinates, with states (v4; KIP-518) and types (v5; KIP-848)."""

    API_KEY = 16

    def __init__(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        self._states, self._types = list(states), list(types)

    def build(self, request_struct_class: Any) -> Any:
        if request_struct_class.API_VERSION >= LIST_TYPES:
            return request_struct_class(self._states, self._types, {})
        if request_struct_class.API_VERSION >= LIST_STATES:
            return request_struct_class(self._states, {})
        return request_struct_class()


class DescribeGroupsResponse_v3(Response):
    API_KEY = 15
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            Array(
                ("error_code", Int16),
                ("group", _TEXT),
                ("state", _TEXT),
                ("protocol_type", _TEXT),
                ("protocol", _TEXT),
                (
                    "members",
                    Array(
                        ("member_id", _TEXT),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("member_metadata", Bytes),
                        ("member_assignment", Bytes),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
    )


class DescribeGroupsRequest_v3(RequestStruct):
    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = DescribeGroupsResponse_v3
    SCHEMA = Schema(("groups", Array(_TEXT)), ("include_authorized_operations", Boolean))


class DescribeGroups(Request[DescribeGroupsRequest_v0 | DescribeGroupsRequest_v3]):
    """Groups of the classic protocol; aiokafka's own v3 has the operations behind the last group, not behind each."""

    API_KEY = 15

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: Any) -> Any:
        if request_struct_class.API_VERSION < DescribeGroupsRequest_v3.API_VERSION:
            return request_struct_class(list(self._groups))
        return request_struct_class(list(self._groups), False)


_ASSIGNMENT = Schema(
    (
        "topic_partitions",
        CompactArray(("topic_id", Uuid), ("topic_name", _NAME), ("partitions", CompactArray(Int32)), _TAGS),
    ),
    _TAGS,
)


def _described(*behind_the_member: tuple[str, type[Int8]]) -> Schema:
    return Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _NAME),
                ("group_id", _NAME),
                ("group_state", _NAME),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor_name", _NAME),
                (
                    "members",
                    CompactArray(
                        ("member_id", _NAME),
                        ("instance_id", _NAME),
                        ("rack_id", _NAME),
                        ("member_epoch", Int32),
                        ("client_id", _NAME),
                        ("client_host", _NAME),
                        ("subscribed_topic_names", CompactArray(_NAME)),
                        ("subscribed_topic_regex", _NAME),
                        ("assignment", _ASSIGNMENT),
                        ("target_assignment", _ASSIGNMENT),
                        *behind_the_member,
                        _TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class ConsumerGroupDescribeResponse_v0(Response):
    API_KEY = 69
    API_VERSION = 0
    SCHEMA = _described()


class ConsumerGroupDescribeRequest_v0(RequestStruct):
    API_KEY = 69
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ConsumerGroupDescribeResponse_v0
    SCHEMA = Schema(("group_ids", CompactArray(_NAME)), ("include_authorized_operations", Boolean), _TAGS)


class ConsumerGroupDescribeResponse_v1(Response):
    API_KEY = 69
    API_VERSION = 1
    SCHEMA = _described(("member_type", Int8))


class ConsumerGroupDescribeRequest_v1(RequestStruct):
    API_KEY = 69
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ConsumerGroupDescribeResponse_v1
    SCHEMA = ConsumerGroupDescribeRequest_v0.SCHEMA


_ConsumerGroupDescribe = ConsumerGroupDescribeRequest_v0 | ConsumerGroupDescribeRequest_v1


class ConsumerGroupDescribe(Request[_ConsumerGroupDescribe]):
    """Groups of the newer protocol (KIP-848), which DescribeGroups calls dead whatever they do."""

    API_KEY = 69

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: type[_ConsumerGroupDescribe]) -> _ConsumerGroupDescribe:
        return request_struct_class(list(self._groups), False, {})
