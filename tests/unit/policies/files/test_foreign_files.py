"""Files of another kind."""

import pytest

from policies.files.foreign_files import Foreign, foreign_bytes, foreign_keys, foreign_text

CONNECTOR = """
{"name": "mm2",
 "config": {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}}
"""
STRIMZI = "# mine\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker2\nmetadata: {name: x}\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16(encoding: str) -> None:
    found = foreign_bytes("clusters = A, B\n".encode(encoding))
    assert found is not None
    assert found.right == "save it as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_other_encodings_are_no_matter(encoding: str) -> None:
    assert foreign_bytes("clusters = Ä, B\n".encode(encoding)) is None


@pytest.mark.parametrize(
    ("text", "is_yaml", "what", "line", "right"),
    [
        (CONNECTOR, False, "a connector's JSON", 3, "raymirror convert FILE WORKERS"),
        (CONNECTOR, True, "a connector's JSON", 3, "raymirror convert FILE WORKERS"),
        ('{"clusters": "A"}', False, "this is JSON", 1, "write mm2.properties"),
        (STRIMZI, True, "Strimzi's custom resource", 2, "raymirror convert FILE"),
        (STRIMZI, False, "Strimzi's custom resource", 2, "raymirror convert FILE"),
        ("kind: ConfigMap\napiVersion: v1\n", True, "a Kubernetes resource", 1, "write mm2.properties"),
    ],
)
def test_by_its_looks(text: str, is_yaml: bool, what: str, line: int, right: str) -> None:
    found = foreign_text(text, is_yaml=is_yaml)
    assert found is not None
    assert what in found.what
    assert found.line == line
    assert right in found.right


@pytest.mark.parametrize(
    ("text", "is_yaml"),
    [("clusters = A, B\n", False), ("{clusters: {A: {}}}", True), ("", False), ("kind = x\napiVersion = y", False)],
)
def test_what_may_be_a_configuration(text: str, is_yaml: bool) -> None:
    assert foreign_text(text, is_yaml=is_yaml) is None


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (["name", "connector.class", "source.cluster.alias"], "a connector's properties"),
        (["bootstrap.servers", "sasl.username"], "librdkafka"),
        (["metadata.broker.list"], "librdkafka"),
        (["bootstrap.servers", "group.id"], "MirrorMaker 1"),
        (["zookeeper.connect"], "MirrorMaker 1"),
        (["cluster", "A->B.enabled"], "missing, but the file has cluster"),
    ],
)
def test_by_its_keys(keys: list[str], what: str) -> None:
    found = foreign_keys(keys)
    assert found is not None
    assert what in found.what


@pytest.mark.parametrize("keys", [[], ["A->B.enabled", "bootstrap.servers"], ["A.bootstrap.servers"]])
def test_keys_that_tell_nothing(keys: list[str]) -> None:
    assert foreign_keys(keys) is None


def test_a_line_is_none_where_none_is_known() -> None:
    assert Foreign("x", "y").line == 0
