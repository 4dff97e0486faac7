"""The classes of connectors, their settings, and what is wrong with given ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rest.connectors import ConnectorKind
from actors.rest.definitions.documents import document_of
from actors.rest.definitions.judging import judged, kind_named
from actors.rest.definitions.rows import rows_by_class, rows_of
from policies.naming import PACKAGE
from tests.unit.actors.rest.rest_views import ask, configured, error, shown

FULL = f"{PACKAGE}MirrorSourceConnector"
FINE = {"name": "x", "connector.class": FULL, "source.cluster.alias": "a"}


def validate(settings: dict[str, Any], plugin: str = "MirrorSourceConnector") -> Any:
    answer = ask("PUT", f"/connector-plugins/{plugin}/config/validate", settings)
    assert answer.status == 200
    return shown(answer)


def test_plugins_are_mm2s_three_classes() -> None:
    kinds = sorted(kind.class_name for kind in ConnectorKind)
    assert shown(ask("GET", "/connector-plugins")) == [
        {"class": name, "type": "source", "version": "4.3.1"} for name in kinds
    ]


@pytest.mark.parametrize("name", ["MirrorSource", "MirrorSourceConnector", FULL, FULL.removesuffix("Connector")])
def test_a_class_has_short_names(name: str) -> None:
    assert kind_named(name) is ConnectorKind.SOURCE
    assert len(shown(ask("GET", f"/connector-plugins/{name}/config"))) == len(rows_of(ConnectorKind.SOURCE))


@pytest.mark.parametrize("kind", list(ConnectorKind))
def test_every_setting_says_what_it_does_here(kind: ConnectorKind) -> None:
    documents = [row.definition().documentation for row in rows_by_class(kind)]
    assert all(len(text) > 5 and text.endswith(".") for text in documents)
    assert {row.name for row in rows_by_class(kind)} == {row.name for row in rows_of(kind)}


def test_what_a_setting_does_here_comes_from_the_table_of_keys() -> None:
    assert document_of("topics.exclude") == "Wins over topics."
    assert document_of("refresh.topics.interval.seconds") == "How often; MM2: 600."
    assert "docs/policies.md" in document_of("replication.policy.class")
    assert document_of("config.action.reload").startswith("Has no effect: ")
    assert document_of("offsets.storage.topic").startswith("Refused: ")
    with pytest.raises(LookupError):
        document_of("no.such.key")


def test_a_class_may_come_from_a_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"replication.policy.class": "com.acme.SuffixPolicy"}
    assert validate(FINE | own)["error_count"] == 1
    monkeypatch.setattr("actors.rest.definitions.judging.provided", lambda: frozenset(["com.acme.SuffixPolicy"]))
    assert validate(FINE | own)["error_count"] == 0
    assert validate(FINE | {"key.converter": "com.acme.SuffixPolicy"})["error_count"] == 1


def test_a_setting_is_shown_as_connect_shows_it() -> None:
    found = {one["name"]: one for one in shown(ask("GET", "/connector-plugins/MirrorSource/config"))}
    assert found["tasks.max"] == {
        "name": "tasks.max",
        "type": "INT",
        "required": False,
        "default_value": "1",
        "importance": "HIGH",
        "documentation": document_of("tasks.max"),
        "group": "Common",
        "order_in_group": 4,
        "width": "SHORT",
        "display_name": "Tasks max",
        "dependents": [],
    }
    assert (found["topics"]["group"], found["topics"]["order_in_group"], found["topics"]["display_name"]) == (
        None,
        -1,
        "topics",
    )
    assert found["topics.exclude"]["default_value"] == r"mm2.*\.internal,.*\.replica,__.*"


def test_settings_that_are_fine_have_no_error() -> None:
    found = validate({**FINE, "tasks.max": 4, "topics": "a, b", "enabled": True})
    values = {one["value"]["name"]: one["value"] for one in found["configs"]}
    assert (found["name"], found["error_count"]) == (FULL, 0)
    assert found["groups"][:2] == ["Common", "Transforms"]
    assert values["tasks.max"] == {
        "name": "tasks.max",
        "value": "4",
        "recommended_values": [],
        "errors": [],
        "visible": True,
    }
    assert (values["topics"]["value"], values["enabled"]["value"]) == ("a,b", "true")


def test_each_error_is_at_its_setting_and_counted() -> None:
    found = validate(
        {"connector.class": FULL, "tasks.max": "x", "topics": None, "offsets.storage.topic": None, "unknown": None}
    )
    errors = {one["value"]["name"]: one["value"]["errors"] for one in found["configs"] if one["value"]["errors"]}
    assert errors == {
        "name": ['Missing required configuration "name" which has no default value.'],
        "source.cluster.alias": ['Missing required configuration "source.cluster.alias" which has no default value.'],
        "tasks.max": [
            "Invalid value x for configuration tasks.max: Not a number of type INT",
            "Invalid value null for configuration tasks.max: Value must be non-null",
        ],
        "topics": ["Configuration 'topics' values must not be null."],
        "offsets.storage.topic": ["Null value can not be supplied as the configuration value."],
        "unknown": ["Null value can not be supplied as the configuration value."],
    }
    assert found["error_count"] == 7
    assert next(one for one in found["configs"] if one["value"]["name"] == "unknown")["definition"] is None


@pytest.mark.parametrize(("converter", "is_visible"), [({}, False), ({"key.converter": "org.apache.kafka.x"}, True)])
def test_the_version_of_a_converter_is_shown_with_it(converter: dict[str, str], is_visible: bool) -> None:
    shown_now = {one["value"]["name"] for one in validate(FINE | converter)["configs"] if one["value"]["visible"]}
    assert ("key.converter.plugin.version" in shown_now) is is_visible
    assert {"connector.plugin.version", "key.converter"} <= shown_now


def test_a_password_is_never_shown() -> None:
    found = validate({**FINE, "sasl.jaas.config": "hunter2", "ssl.key.password": "hunter2"})
    assert "hunter2" not in str(found)
    assert {one["value"]["value"] for one in found["configs"] if one["value"]["name"] == "sasl.jaas.config"} == {
        "[hidden]"
    }


@pytest.mark.parametrize(
    ("plugin", "settings", "message"),
    [
        (
            "MirrorSource",
            {"connector.class": "x.Y"},
            "Included connector type x.Y does not match request type MirrorSource",
        ),
        ("MirrorSource", {}, "Connector config {} contains no connector type"),
        (
            "x.Y",
            {"connector.class": "x.Y"},
            "Failed to find any class that implements Connector and which name matches x.Y",
        ),
    ],
)
def test_another_class_is_refused(plugin: str, settings: dict[str, Any], message: str) -> None:
    status, found = error(ask("PUT", f"/connector-plugins/{plugin}/config/validate", settings))
    assert status == 400
    assert found.startswith(message)


def test_the_settings_of_a_mirror_are_valid() -> None:
    for connector in configured("A->B.topics = x\ntasks.max = 3\n").values():
        assert judged(connector.config).error_count == 0


NAMES = [row.name for row in rows_of(ConnectorKind.SOURCE) if row.name != "connector.class"]


@given(st.dictionaries(st.sampled_from(NAMES), st.none() | st.text(max_size=12), max_size=6))
def test_any_values_are_judged(settings: dict[str, str | None]) -> None:
    found = judged({**settings, "connector.class": FULL})
    assert found.error_count == sum(len(one.value.errors) for one in found.configs)
    assert {one.value.name for one in found.configs} >= set(settings)
