"""Requests for configs and ACLs as Kafka's own classes read them, and responses as they write them."""

from typing import Any

import pytest

from engine.kafka.protocol import admin_codec as codec
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from policies.sync.topic_configs import DEFAULT, TOPIC_OVERRIDE, ConfigEntry

pytestmark = pytest.mark.contract
READ = Binding(int(Resource.TOPIC), "ördern", int(Pattern.LITERAL), "User:ann", "*", int(Operation.READ), 3)
DENY = READ._replace(pattern=int(Pattern.PREFIXED), operation=int(Operation.ALL), permission=int(Permission.DENY))


def read_by_kafka(java: Any, name: str, request: tuple[int, int], body: bytes) -> str:
    """Return a request as Kafka prints it; all of its bytes must be used."""
    protocol = java.org.apache.kafka.common.protocol
    message = getattr(java.org.apache.kafka.common.message, f"{name}RequestData")()
    assert (message.apiKey(), message.highestSupportedVersion() >= request[1]) == (request[0], True)
    assert message.lowestSupportedVersion() <= request[1]
    reader = protocol.ByteBufferAccessor(java.java.nio.ByteBuffer.wrap(bytearray(body)))
    message.read(reader, request[1])
    assert reader.remaining() == 0
    return str(message.toString())


def written_by_kafka(java: Any, message: Any, version: int) -> bytes:
    accessor = java.org.apache.kafka.common.protocol.MessageUtil.toByteBufferAccessor(message, version)
    return bytes(java.org.apache.kafka.common.utils.Utils.toArray(accessor.buffer()))


def test_kafka_reads_what_we_ask(java: Any) -> None:
    body = codec.describe_configs({"t": ("a", "b"), "ü": None})
    asked = read_by_kafka(java, "DescribeConfigs", codec.DESCRIBE_CONFIGS, body)
    assert "resourceType=2, resourceName='t', configurationKeys=[a, b]" in asked
    assert "resourceType=2, resourceName='ü', configurationKeys=null" in asked
    assert "includeSynonyms=false" in asked
    body = codec.alter_configs({"t": {"a": "1", "b": None}, "u": {}})
    asked = read_by_kafka(java, "IncrementalAlterConfigs", codec.INCREMENTAL_ALTER_CONFIGS, body)
    set_op, delete_op = (
        java.org.apache.kafka.clients.admin.AlterConfigOp.OpType.valueOf(op) for op in ("SET", "DELETE")
    )
    assert f"name='a', configOperation={set_op.id()}, value='1'" in asked
    assert f"name='b', configOperation={delete_op.id()}, value=null" in asked
    assert "validateOnly=false" in asked
    asked = read_by_kafka(java, "DescribeAcls", codec.DESCRIBE_ACLS, codec.describe_acls(Resource.GROUP))
    assert "resourceTypeFilter=3, resourceNameFilter=null, patternTypeFilter=1" in asked
    asked = read_by_kafka(java, "CreateAcls", codec.CREATE_ACLS, codec.create_acls([READ, DENY]))
    assert "resourceName='ördern', resourcePatternType=3, principal='User:ann', host='*', operation=3" in asked
    assert "resourcePatternType=4, principal='User:ann', host='*', operation=2, permissionType=2" in asked


def test_kafka_reads_which_bindings_we_remove(java: Any) -> None:
    asked = read_by_kafka(java, "DeleteAcls", codec.DELETE_ACLS, codec.delete_acls([READ, DENY]))
    assert "resourceTypeFilter=2, resourceNameFilter='ördern', patternTypeFilter=3" in asked
    assert "principalFilter='User:ann', hostFilter='*', operation=2, permissionType=2" in asked


def test_we_read_what_kafka_says_of_removed_bindings(java: Any) -> None:
    data = java.org.apache.kafka.common.message.DeleteAclsResponseData
    made = data()
    for code, matched in ((0, ()), (7, ()), (0, (0, 31))):
        result = getattr(data, "DeleteAclsFilterResult")()  # noqa: B009
        result.setErrorCode(code).setErrorMessage(None)
        for inner in matched:
            match = getattr(data, "DeleteAclsMatchingAcl")()  # noqa: B009
            match.setErrorCode(inner).setErrorMessage("why").setResourceType(2).setResourceName("t").setPatternType(3)
            match.setPrincipal("User:ann").setHost("*").setOperation(4).setPermissionType(2)
            result.matchingAcls().add(match)
        made.filterResults().add(result)
    answered = codec.read_deleted(written_by_kafka(java, made, codec.DELETE_ACLS[1]))
    assert answered == [(0, ""), (7, ""), (31, "why")]


def test_we_read_what_kafka_answers(java: Any) -> None:
    messages = java.org.apache.kafka.common.message
    data = messages.DescribeConfigsResponseData
    made = data()
    for topic, code in (("t", 0), ("ü", 3)):
        result = getattr(data, "DescribeConfigsResult")()  # noqa: B009
        result.setResourceType(2).setResourceName(topic).setErrorCode(code).setErrorMessage(None)
        for name, value, source in (("retention.ms", "5", TOPIC_OVERRIDE), ("segment.bytes", None, DEFAULT)):
            entry = data.DescribeConfigsResourceResult()
            entry.setName(name).setValue(value).setConfigSource(source)
            result.configs().add(entry)
        made.results().add(result)
    found, refused = codec.ConfigsReader().read(written_by_kafka(java, made, codec.DESCRIBE_CONFIGS[1]))
    assert (found.topic, found.error_code, refused.topic, refused.error_code) == ("t", 0, "ü", 3)
    assert found.configs == {
        "retention.ms": ConfigEntry("5", TOPIC_OVERRIDE, False, False),
        "segment.bytes": ConfigEntry("", DEFAULT, False, False),
    }
    altered = messages.IncrementalAlterConfigsResponseData()
    response = messages.IncrementalAlterConfigsResponseData.AlterConfigsResourceResponse()
    altered.responses().add(response.setErrorCode(40).setErrorMessage("no").setResourceType(2).setResourceName("t"))
    assert codec.read_altered(written_by_kafka(java, altered, codec.INCREMENTAL_ALTER_CONFIGS[1])) == {"t": (40, "no")}


def test_codes_are_kafkas(java: Any) -> None:
    common = java.org.apache.kafka.common
    kinds = (
        (Resource, common.resource.ResourceType),
        (Pattern, common.resource.PatternType),
        (Permission, common.acl.AclPermissionType),
        (Operation, common.acl.AclOperation),
    )
    for ours, theirs in kinds:
        assert {one.name: one.value for one in ours} == {one.name: theirs.valueOf(one.name).code() for one in ours}
    assert len(Operation) == len(common.acl.AclOperation.values()) - 2  # without UNKNOWN and ANY
    sources = java.org.apache.kafka.common.requests.DescribeConfigsResponse.ConfigSource
    assert (sources.TOPIC_CONFIG.id(), sources.DEFAULT_CONFIG.id()) == (TOPIC_OVERRIDE, DEFAULT)
