"""Policies and filters of Python packages: found by the name of a Java class, tested, and used."""

import pickle
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from engine.base.errors import ConfigError
from engine.config.config import plain_settings
from engine.config.file.properties import parse_properties
from engine.config.plugins import loading
from engine.config.plugins.policy_settings import PolicySettings
from engine.config.property_reader import PropertyReader
from policies.model import FlowName
from policies.own.own_naming import OwnNaming
from policies.sync.topic_configs import DEFAULT, TOPIC_OVERRIDE, ConfigEntry, wanted_configs
from tests.unit.engine.config_files import BASE, flow, mirror

CLASSES = "tests.unit.policies.own.own_classes"
PROVIDED = EntryPoints(
    [
        EntryPoint("com.acme.Suffixed", f"{CLASSES}:Suffixed", loading.GROUP),
        EntryPoint("com.acme.Chosen", f"{CLASSES}:Chosen", loading.GROUP),
        EntryPoint("com.acme.Unkind", f"{CLASSES}:Unkind", loading.GROUP),
        EntryPoint("com.acme.Gone", f"{CLASSES}:Gone", loading.GROUP),
    ]
)
POLICY = "replication.policy.class = com.acme.Suffixed\n"


@pytest.fixture(autouse=True)
def _provided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "entry_points", PROVIDED.select)


def test_a_policy_names_the_copies() -> None:
    found = flow(f"{POLICY}A->B.replication.policy.word = from\n")
    assert isinstance(found.naming, OwnNaming)
    assert found.selection.target_topic("orders") == "orders-from-A"
    assert found.syncs.topic == "mm2-offset-syncs.B.internal"
    assert mirror(f"{POLICY}A->B.replication.policy.word = from\n").warnings == (), "the policy has read its key"


def test_a_key_that_no_policy_has_read_is_still_unknown() -> None:
    (warning,) = mirror(f"{POLICY}A->B.replication.policy.wrod = from\n").warnings
    assert "wrod" in warning.key


def test_filters_choose_topics_groups_and_configs() -> None:
    lines = [f"{what}.filter.class = com.acme.Chosen\n" for what in ("topic", "group", "config.property")]
    found = flow("".join(lines) + "A->B.my.begin = cl\n")
    assert [found.selection.why_not(one) for one in ("clicks", "orders")] == [None, "not chosen by com.acme.Chosen"]
    groups = found.groups.selection
    assert [groups.why_not(one) for one in ("clicks", "orders")] == [None, "not chosen by com.acme.Chosen"]
    configs = {
        "cleanup.policy": ConfigEntry("compact", TOPIC_OVERRIDE, False, False),
        "cl.default": ConfigEntry("1", DEFAULT, False, False),
        "cl.other": ConfigEntry("2", DEFAULT, False, False),
        "retention.ms": ConfigEntry("3", TOPIC_OVERRIDE, False, False),
    }
    assert wanted_configs(configs, found.config_rules) == {"cleanup.policy": "compact", "cl.default": "1"}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("replication.policy.class = com.acme.Other", "unknown policy 'com.acme.Other'"),
        ("replication.policy.class = com.acme.Unkind", r"own_classes:Unkind: .*TypeError|own_classes:Unkind fails"),
        ("replication.policy.class = com.acme.Gone", "own_classes:Gone fails: AttributeError"),
        ("replication.policy.class = com.acme.Chosen", "own_classes:Chosen: has no method format_remote_topic"),
        ("topic.filter.class = com.acme.Suffixed", "own_classes:Suffixed: has no method should_replicate_topic"),
        ("group.filter.class = com.acme.Other", "unknown filter 'com.acme.Other'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(line: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as caught:
        flow(f"{line}\n")
    assert "docs/policies.md" in caught.value.right


def test_an_unknown_filter_may_be_left_out_on_request() -> None:
    config = mirror("topic.filter.class = com.acme.Other\nraymirror.unsupported = warn\n")
    assert config.flows[0].selection.wants("anything")
    assert any("unknown filter" in warning.what for warning in config.warnings)


def test_a_policy_gets_no_secret_and_no_key_of_others() -> None:
    text = (
        f"{BASE}{POLICY}A->B.my.key = ${{env:HOME}}\nA->B.sasl.jaas.config = x;\nlisteners = h\nB->A.topics = x\n"
        "A->B.topics = a\ntopics = b\nraymirror.unsupported = warn\n"
    )
    settings = PolicySettings(PropertyReader(parse_properties(text, "f")), FlowName("A", "B"))
    assert {"my.key", "sasl.jaas.config", "listeners"} & set(settings) == set()
    assert (settings["topics"], settings["source.cluster.alias"], settings["target.cluster.alias"]) == ("a", "A", "B")
    assert settings.used == {"topics": "a"}
    assert len(settings) == len(list(settings))


def test_a_policy_that_keeps_its_settings_carries_no_secret_to_other_processes() -> None:
    text = f"{BASE}A.sasl.jaas.config = x required password=c4n4ry;\nA->B.my.key = yes\nA->B.own = ${{env:HOME}}\n"
    settings = PolicySettings(PropertyReader(parse_properties(text, "f")), FlowName("A", "B"))
    sent = pickle.dumps(settings)
    assert b"c4n4ry" not in sent
    there = pickle.loads(sent)
    assert (there["my.key"], there["source.cluster.alias"], set(there)) == ("yes", "A", set(settings))
    assert settings.used == {}, "only what the policy itself asks for counts as read"


def test_what_a_policy_has_read_is_kept_for_restarted_processes() -> None:
    properties = parse_properties(f"{BASE}{POLICY}A->B.replication.policy.word = from\n", "f")
    assert plain_settings(properties)["A->B.replication.policy.word"] == "from"


@pytest.mark.parametrize(
    "name",
    [
        "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
        "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
        "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    ],
)
def test_classes_of_others_that_keep_names_work_like_identity(name: str) -> None:
    config = mirror(f"replication.policy.class = {name}\n")
    assert config.flows[0].selection.target_topic("orders") == "orders"
    assert any("works like IdentityReplicationPolicy" in note.what for note in config.notes)


def test_an_empty_separator_is_taken_with_identity_only() -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    found = flow(f"{identity}replication.policy.separator =\n")
    assert (found.naming.remote_topic("A", "orders"), found.naming.remote_topic("A", "heartbeats")) == (
        "orders",
        "Aheartbeats",
    )
    with pytest.raises(ConfigError, match="'' is not allowed in a topic name"):
        flow("replication.policy.separator =\n")


def test_a_class_with_mm2s_name_in_another_package_is_taken_for_mm2s_with_a_warning() -> None:
    config = mirror(
        "replication.policy.class = io.vendor.mm2.IdentityReplicationPolicy\n"
        "group.filter.class = io.vendor.mm2.DefaultGroupFilter\n"
    )
    assert config.flows[0].selection.target_topic("orders") == "orders"
    assert config.flows[0].groups.selection.wants("billing")
    assert [(one.line, "is taken for org.apache.kafka.connect.mirror." in one.what) for one in config.warnings] == [
        (5, True),
        (6, True),
    ]
