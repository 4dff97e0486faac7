"""All mistakes of a file are reported at once; mistakes that only follow from others are not."""

import pickle

import pytest

from engine.base.errors import ConfigError, ConfigErrors
from tests.unit.engine.config_files import BASE, mirror

SPACED = BASE.replace("A->B.enabled", "A ->B.enabled")


def told(extra: str, base: str = BASE) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        mirror(extra, base)
    parts = caught.value.errors if isinstance(caught.value, ConfigErrors) else (caught.value,)
    return [f"{one.line}: {one.key}: {one.wrong}" for one in parts]


def test_mistakes_of_every_kind_are_told_in_the_order_of_the_file() -> None:
    extra = (
        "A->B.topcis = orders\n"
        "tasks.max = two\n"
        "replication.factor = 0\n"
        "A->B.groups = 'billing'\n"
        "C->A.enabled = true\n"
        "emit.checkpoints.enabled = yes\n"
        "sync.group.offset.enabled = true\n"
    )
    assert told(extra, BASE.replace("b1:9092", "b1")) == [
        "3: B.bootstrap.servers: 'b1' is not an address",
        "5: A->B.topcis: no such key",
        "6: tasks.max: 'two' is not a number",
        "7: replication.factor: 0 is out of range",
        "8: A->B.groups: quotes are part of the value, but a name or address has none",
        "9: C->A.enabled: cluster 'C' is not in clusters",
        "10: emit.checkpoints.enabled: 'yes' is neither true nor false",
        "11: sync.group.offset.enabled: no such key",
    ]


def test_one_mistake_is_told_as_before_and_several_are_a_line_each() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror("tasks.max = two\nA->B.topcis = x\n")
    assert str(caught.value).splitlines() == [
        "2 problems",
        "  mm2.properties:5: tasks.max: 'two' is not a number; give a whole number from 1 to 10000",
        "  mm2.properties:6: A->B.topcis: no such key; did you mean A->B.topics?",
    ]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line) == (str(caught.value), 5)
    assert told("tasks.max = two\n") == ["5: tasks.max: 'two' is not a number"]


@pytest.mark.parametrize(
    ("extra", "keys"),
    [
        ("raymirror.spark = yes\nraymirror.proof = on\nraymirror.storage = file:/x\n", ["raymirror.spark"]),
        ("raymirror.spark = on\nraymirror.proof = on\nraymirror.storage = nowhere\n", ["raymirror.storage"]),
        ("raymirror.copiers = many\nraymirror.copiers.max = 1\n", ["raymirror.copiers"]),
        ("raymirror.unsupported = wran\nA->B.topic.filter.class = com.acme.Filter\n", ["raymirror.unsupported"]),
        ("A.security.protocol = SASL_SSL\nA.sasl.mechanism = x\n", ["A.sasl.mechanism"]),
        ("A.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\n", ["A.sasl.jaas.config"]),
        (
            "B->A.enabled = maybe\ntopics = x\nreplication.policy.class = IdentityReplicationPolicy\n",
            ["B->A.enabled"],
        ),
    ],
)
def test_what_follows_from_a_mistake_is_not_told(extra: str, keys: list[str]) -> None:
    found = told(f"{extra}tasks.max = two\n")
    assert [one.split(": ")[1] for one in found if "tasks.max" not in one] == keys
    assert any("tasks.max" in one for one in found), "what is beside it is"


def test_spaces_in_keys_are_told_of_all_lines() -> None:
    assert told("A ->B.topics = x\nA ->B.groups = y\ntasks.max = two\n", SPACED) == [
        "4: A: names a cluster, but no setting",
        "5: A: names a cluster, but no setting",
        "6: A: names a cluster, but no setting",
        "7: tasks.max: 'two' is not a number",
    ]


def test_where_no_flow_is_enabled_the_keys_that_meant_it_are_told() -> None:
    assert told("", BASE.replace("A->B.enabled", "A->B.enabeld")) == [
        "1: clusters: no flow is enabled",
        "4: A->B.enabeld: no such key",
    ]


def test_without_the_aliases_nothing_else_is_asked() -> None:
    assert told("tasks.max = two\nA->B.topcis = x\n", BASE.replace("clusters = A, B", 'clusters = "A, B"')) == [
        "1: clusters: quotes are part of the value, but a name or address has none"
    ]


def test_no_secret_is_in_what_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror('A.sasl.jaas.config = x password="hunter2"\nA.security.protocol = SASL_SSL\ntasks.max = two\n')
    assert "hunter2" not in f"{caught.value}{caught.value!r}"
