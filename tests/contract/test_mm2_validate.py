"""raymirror's table of connector settings, and its judgement of values, compared with Kafka 4.3.1's own classes."""

from typing import Any

import pytest
from py4j.java_gateway import get_field  # type: ignore[import-untyped]

from actors.rest.connectors import ConnectorKind
from actors.rest.definitions.judging import judged
from actors.rest.definitions.rows import groups_of, rows_by_class, rows_of

pytestmark = pytest.mark.contract

CONNECT = "org.apache.kafka.connect"
BASE = {"name": "x", "source.cluster.alias": "a"}
VALUES: list[dict[str, str]] = [
    {},
    {"name": "", "tasks.max": "0"},
    {"name": " a\tb\x01", "tasks.max": "1.5"},
    {"tasks.max": " 3 ", "enabled": "TRUE", "topics": "a , b,c"},
    {"tasks.max": "x", "enabled": "yes", "topics": ""},
    {"tasks.max": "99999999999", "offset.lag.max": "9999999999999999999999", "replication.factor": "-1"},
    {"offset-syncs.topic.replication.factor": "40000", "checkpoints.topic.replication.factor": "2"},
    {"topics": "a,a", "groups": "a,", "topics.exclude": ",a", "metric.reporters": ""},
    {"metric.names.formats": "x,new", "config.action.reload": "X", "errors.tolerance": "ALL"},
    {"metric.names.formats": "", "security.protocol": "sasl_ssl", "errors.tolerance": "all"},
    {"security.protocol": "X", "exactly.once.support": "x", "transaction.boundary": "POLL"},
    {"transforms": "a,a", "predicates": "a", "topic.creation.groups": "b,b"},
    {"transaction.boundary.interval.ms": "-1", "offsets.storage.topic": ""},
    {"transaction.boundary.interval.ms": "x", "offsets.storage.topic": "t"},
    {"sasl.login.refresh.window.factor": "0.4", "sasl.login.refresh.window.jitter": "x"},
    {"sasl.login.refresh.window.factor": "1", "sasl.login.refresh.min.period.seconds": "901"},
    {"replication.policy.class": "x.Y", "offset-syncs.topic.location": "elsewhere"},
    {"replication.policy.class": f"{CONNECT}.mirror.IdentityReplicationPolicy"},
    {"sasl.jaas.config": "secret", "ssl.key.password": ""},
]


def config_def(java: Any, kind: ConnectorKind) -> Any:
    """Return the ConfigDef of one of MM2's classes."""
    owner = java.java.lang.Class.forName(f"{CONNECT}.mirror.{kind.removesuffix('Connector')}Config")
    field = owner.getDeclaredField("CONNECTOR_CONFIG_DEF")
    field.setAccessible(True)
    return field.get(None)


def connect_def(java: Any) -> Any:
    """Return the ConfigDef that Connect has for every source connector."""
    methods = java.java.lang.Class.forName(f"{CONNECT}.runtime.SourceConnectorConfig").getDeclaredMethods()
    (found,) = (one for one in methods if one.getName() == "configDef" and one.getParameterCount() == 0)
    return found.invoke(None, None)


def rows(java: Any, definition: Any) -> dict[str, tuple[object, ...]]:
    """Return what a ConfigDef says of each of its settings, in its order."""
    config_def, found = java.org.apache.kafka.common.config.ConfigDef, {}
    for name in definition.configKeys().keySet():
        key = definition.configKeys().get(name)
        kind, is_required = get_field(key, "type"), not key.hasDefault()
        default = None if is_required else config_def.convertToString(get_field(key, "defaultValue"), kind)
        words = [str(get_field(key, field).toString()) for field in ("type", "importance", "width")]
        form = [get_field(key, field) for field in ("group", "orderInGroup", "displayName")]
        found[str(name)] = (*words, is_required, default, *form, tuple(get_field(key, "dependents")))
    return found


@pytest.mark.parametrize("kind", list(ConnectorKind))
def test_the_table_is_that_of_the_classes(java: Any, kind: ConnectorKind) -> None:
    own, connect = rows(java, config_def(java, kind)), rows(java, connect_def(java))
    theirs = own | {name: row for name, row in connect.items() if name not in own}
    definitions = [row.definition() for row in rows_by_class(kind)]
    ours = {
        one.name: (
            one.type,
            one.importance,
            one.width,
            one.required,
            one.default_value,
            one.group,
            one.order_in_group,
            one.display_name,
            one.dependents,
        )
        for one in definitions
    }
    assert ours == theirs
    assert list(ours) == list(theirs)
    validated = [*connect, *(name for name in own if name not in connect)]
    assert [row.name for row in rows_of(kind)] == validated
    assert list(groups_of(rows_of(kind))) == [str(one) for one in connect_def(java).groups()]


@pytest.mark.parametrize("kind", list(ConnectorKind))
@pytest.mark.parametrize("values", VALUES, ids=range(len(VALUES)))
def test_values_are_judged_as_the_classes_do(java: Any, kind: ConnectorKind, values: dict[str, str]) -> None:
    settings = {**BASE, "connector.class": kind.class_name, **values}
    convert = java.org.apache.kafka.common.config.ConfigDef.convertToString
    theirs: dict[str, tuple[object, list[str]]] = {}
    for definition in (connect_def(java), config_def(java, kind)):
        found = definition.validateAll(settings)
        for name in found.keySet():
            value = found.get(name)
            text = convert(value.value(), get_field(definition.configKeys().get(name), "type"))
            theirs[str(name)] = (text, [str(one) for one in value.errorMessages()])
    ours = {one.value.name: (one.value.value, list(one.value.errors)) for one in judged(settings).configs}
    assert ours == theirs
