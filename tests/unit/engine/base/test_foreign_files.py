"""Files of another kind, as `check` and `run` read them; and files that only look so."""

import pickle
from pathlib import Path

import pytest

from engine.base.errors import ClusterAway, ConfigError
from engine.config.config import load_config, read_config
from engine.config.file.config_file import parse_file
from policies.naming import IdentityNaming
from tests.unit.engine.config_files import BASE, flow, mirror

CONNECTOR = '{"name": "x", "config": {"connector.class": "MirrorSourceConnector"}}'
STRIMZI = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker2\nspec:\n  mirrors:\n  - sourceCluster: a\n"


@pytest.mark.parametrize(
    ("name", "data", "key", "says"),
    [
        ("mm2.properties", BASE.encode("utf-16"), "file", "saved as UTF-16; save it as UTF-8"),
        ("mirror.yaml", BASE.encode("utf-16-le"), "file", "saved as UTF-16; save it as UTF-8"),
        ("mm2.json", CONNECTOR.encode(), "file", "this is a connector's JSON"),
        ("mm2.yaml", CONNECTOR.encode(), "file", "this is a connector's JSON"),
        ("mm2.yaml", STRIMZI.encode(), "file", "this is Strimzi's custom resource"),
        ("mm2.properties", STRIMZI.encode(), "file", "this is Strimzi's custom resource"),
        ("mm2.properties", b"name=x\nconnector.class=MirrorSourceConnector\n", "clusters", "a connector's properties"),
        ("consumer.properties", b"bootstrap.servers=h:1\ngroup.id=mm\n", "clusters", "for MirrorMaker 1"),
        ("client.conf", b"bootstrap.servers=h:1\nsasl.username=me\n", "clusters", "librdkafka"),
        ("mm2.properties", BASE.replace("clusters", "Cluster").encode(), "clusters", "did you mean clusters?"),
        ("mm2.properties", b"A->B.enabled = true\n", "clusters", "list the cluster aliases"),
        ("mm2.properties", b"cluster = A, B\nbootstrap.servers = h:1\n", "clusters", "did you mean clusters?"),
    ],
)
def test_a_file_that_is_something_else(name: str, data: bytes, key: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / name)
    assert name in caught.value.file
    assert key in caught.value.key
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["mm2.properties", "mirror.yaml"])
def test_a_byte_order_mark_is_accepted(name: str) -> None:
    text = (
        BASE
        if name.endswith("properties")
        else "clusters: {A: {bootstrap.servers: 'a:1'}, B: {bootstrap.servers: 'b:1'}}\nflows: {A->B: {enabled: true}}"
    )
    config = read_config(parse_file(text.encode("utf-8-sig"), name))
    assert list(config.clusters) == ["A", "B"]


def test_strimzis_identity_is_kafkas() -> None:
    found = flow("replication.policy.class = io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy\n")
    assert isinstance(found.naming, IdentityNaming)


@pytest.mark.parametrize(
    ("line", "wrong", "right"),
    [
        ("A -> B.topics = x", "names a cluster, but no setting", "a space ends a key: write A->B.topics = x"),
        ("A -> B.topics = ${env:X}", "names a cluster, but no setting", "remove the space"),
        ("A->B:topics = x", "names a flow, but no setting", "write a setting of it, e.g. A->B.enabled = true"),
    ],
)
def test_a_key_that_ends_too_early(line: str, wrong: str, right: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(f"{line}\n")
    assert (caught.value.line, caught.value.wrong, caught.value.right) == (5, wrong, right)


def test_where_the_addresses_of_a_cluster_stand() -> None:
    clusters = mirror("").clusters
    assert clusters["B"].bootstrap_place() == "mm2.properties:3: B.bootstrap.servers"
    away = ClusterAway(clusters["B"].bootstrap_place(), "B", "b1:9092: cannot connect: refused")
    assert str(pickle.loads(pickle.dumps(away))) == str(away) == str(away.again())
    assert str(away).startswith("mm2.properties:3: B.bootstrap.servers: no broker of cluster 'B' answers: b1:9092: ")
    assert str(ClusterAway("", "B", "down")) == "no broker of cluster 'B' answers: down"
