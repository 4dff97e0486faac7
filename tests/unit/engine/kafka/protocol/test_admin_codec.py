"""Configs and ACLs in bytes, against the schemas of aiokafka's own protocol classes."""

import struct

import pytest
from aiokafka.protocol.admin import (
    CreateAclsRequest_v1,
    CreateAclsResponse_v1,
    DescribeAclsRequest_v1,
    DescribeAclsResponse_v1,
    DescribeConfigsRequest_v1,
    DescribeConfigsResponse_v1,
)
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Schema, String

from engine.kafka.protocol import admin_codec as codec
from policies.sync.acl_sync import Binding
from policies.sync.topic_configs import ConfigEntry

TEXT = String("utf-8")
ALTER = Schema(
    (
        "resources",
        Array(
            ("resource_type", Int8),
            ("resource_name", TEXT),
            ("configs", Array(("name", TEXT), ("operation", Int8), ("value", TEXT))),
        ),
    ),
    ("validate_only", Boolean),
)
ALTERED = Schema(
    ("throttle_time_ms", Int32),
    (
        "responses",
        Array(("error_code", Int16), ("error_message", TEXT), ("resource_type", Int8), ("resource_name", TEXT)),
    ),
)
"""IncrementalAlterConfigs v0, which aiokafka lacks (KIP-339)."""
ONE = Binding(2, "ördern", 3, "User:ann", "*", 3, 3)
OTHER = Binding(2, "o", 4, "User:zoe", "10.0.0.1", 2, 2)


def test_requests_are_as_aiokafka_writes_them() -> None:
    theirs = DescribeConfigsRequest_v1([(2, "t", None), (2, "ü", ["a", "b"]), (2, "v", ["a", "b"])], False)
    assert codec.describe_configs({"t": None, "ü": ("a", "b"), "v": ("a", "b")}) == theirs.encode()
    assert codec.describe_acls(3) == DescribeAclsRequest_v1(3, None, 1, None, None, 1, 1).encode()
    rows = [(one.resource, one.name, *one[2:]) for one in (ONE, OTHER)]
    assert codec.create_acls([ONE, OTHER]) == CreateAclsRequest_v1(rows).encode()
    wanted = [(2, "t", [("a", 0, "1"), ("b", 1, None)]), (2, "u", [("c", 0, "")])]
    assert codec.alter_configs({"t": {"a": "1", "b": None}, "u": {"c": ""}}) == ALTER.encode((wanted, False))


def test_configs_with_and_without_synonyms() -> None:
    rows = [
        ("retention.ms", "5", False, 1, False, []),
        ("secret", None, True, 4, True, [("x", "1", 4), ("y", None, 5)]),
        ("segment.ms", "6", False, 5, False, []),
    ]
    answer = DescribeConfigsResponse_v1(
        0, [(0, None, 2, "t", rows), (0, None, 2, "u", rows[:1]), (3, "not there", 2, "v", [])]
    )
    reader = codec.ConfigsReader()
    first, second, third = reader.read(answer.encode())
    assert (first.topic, first.error_code) == ("t", 0)
    assert first.configs == {
        "retention.ms": ConfigEntry("5", 1, False, False),
        "secret": ConfigEntry("", 4, True, True),
        "segment.ms": ConfigEntry("6", 5, False, False),
    }
    assert second.configs["retention.ms"] is first.configs["retention.ms"]
    assert (third.topic, third.error_code, third.message, third.configs) == ("v", 3, "not there", {})


def test_answers_of_changes_and_acls() -> None:
    altered = ALTERED.encode((0, [(0, None, 2, "t"), (40, "no", 2, "u")]))
    assert codec.read_altered(altered) == {"t": (0, ""), "u": (40, "no")}
    created = CreateAclsResponse_v1(0, [(0, None), (31, "denied")])
    assert codec.read_created(created.encode()) == [(0, ""), (31, "denied")]
    acls = DescribeAclsResponse_v1(
        0, 0, None, [(2, ONE.name, 3, [tuple(ONE[3:])]), (2, OTHER.name, 4, [tuple(OTHER[3:])])]
    )
    assert codec.read_acls(acls.encode()) == (0, "", {ONE, OTHER})


def test_an_answer_that_is_cut_short_is_no_answer() -> None:
    whole = DescribeConfigsResponse_v1(0, [(0, None, 2, "t", [("retention.ms", "5", False, 1, False, [])])]).encode()
    for size in range(4, len(whole) - 4):
        with pytest.raises((IndexError, struct.error)):
            codec.ConfigsReader().read(whole[:size])
