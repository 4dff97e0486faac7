"""Settings of a flow changed in its file, as a connector has them."""

import pytest

from actors.config.settings_change import CannotChange, SettingChanges, changed_file, file_with_flow
from engine.base.errors import ConfigError
from engine.config.http.connector_settings import connector_settings
from policies.files.foreign_files import UTF_8_BOM
from policies.model import FlowName
from tests.unit.engine.config_files import BASE

FLOW = FlowName("A", "B")
FILE = f"# of the night shift\n{BASE}topics = x.*\nA->B.groups = g\n"


def after(changes: SettingChanges, file: str = FILE) -> str:
    return changed_file(file.encode(), "mm2.properties", FLOW, changes).data.decode()


def test_only_the_flows_own_keys_are_written() -> None:
    changed = changed_file(FILE.encode(), "mm2.properties", FLOW, {"topics": "a\\.b", "groups": None})
    assert changed.data.decode() == FILE.replace("A->B.groups = g\n", "") + "A->B.topics = a\\\\.b\n"
    assert connector_settings(changed.plain, FLOW)["topics"] == "a\\.b"


def test_a_key_of_the_flow_is_replaced_where_it_is() -> None:
    assert after({"groups": "h"}) == FILE.replace("A->B.groups = g", "A->B.groups = h")


def test_a_clients_setting_goes_to_the_level_that_wins() -> None:
    file = f"{FILE}A.consumer.fetch.max.bytes = 1000000\n"
    assert after({"source.consumer.fetch.max.bytes": "2000000"}, file) == (
        f"{file}A->B.source.consumer.fetch.max.bytes = 2000000\n"
    )


def test_a_file_keeps_its_mark_and_the_bytes_of_its_comments() -> None:
    data = UTF_8_BOM + "# für nachts\n".encode() + FILE.encode()
    changed = changed_file(data, "mm2.properties", FLOW, {"groups": "h"}).data
    assert changed == data.replace(b"A->B.groups = g", b"A->B.groups = h")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"enabled": "false"}, "enabled says which connector it is"),
        ({"connector.class": "x"}, "connector.class says which connector it is"),
        ({"source.consumer.sasl.jaas.config": "hunter2"}, "may hold a password"),
        ({"source.cluster.bootstrap.servers": "h:1"}, "change A.bootstrap.servers in the file"),
        ({"raymirror.copiers": "4"}, "change A->B.raymirror.copiers in the file"),
        ({"topics": None}, "topics cannot be removed for one flow, because topics sets it for others too"),
        ({"no.such.setting": "1"}, "no.such.setting"),
        ({"": "1"}, ""),
    ],
)
def test_what_cannot_be_changed_so_is_refused_by_name(changes: SettingChanges, says: str) -> None:
    with pytest.raises((CannotChange, ConfigError)) as refused:
        after(changes)
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_weaker_key_would_hold() -> None:
    with pytest.raises(CannotChange, match="groups cannot be removed, because a weaker key"):
        after({"groups": None}, f"{FILE}groups = other\n")


NEW = FlowName("B", "A")


def with_flow(settings: dict[str, str], file: str = FILE) -> str:
    return file_with_flow(file.encode(), "mm2.properties", NEW, settings).data.decode()


def test_a_flow_is_added_with_its_own_keys() -> None:
    identity = {"name": "B->A.MirrorSourceConnector", "connector.class": "MirrorSourceConnector", "enabled": "true"}
    aliases = {"source.cluster.alias": "B", "target.cluster.alias": "A"}
    clusters = {"source.cluster.bootstrap.servers": "b1:9092", "target.cluster.bootstrap.servers": "a1:9092, a2:9092"}
    added = file_with_flow(
        FILE.encode(), "f", NEW, {**identity, **aliases, **clusters, "topics": "x.*", "groups": "h", "tasks.max": "2"}
    )
    assert added.data.decode() == f"{FILE}B->A.enabled = true\nB->A.groups = h\nB->A.tasks.max = 2\n"
    assert [str(flow.name) for flow in added.config.flows] == ["A->B", "B->A"]


def test_a_flow_that_was_switched_off_is_switched_on() -> None:
    assert with_flow({}, f"{FILE}B->A.enabled = false\n") == f"{FILE}B->A.enabled = true\n"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"source.cluster.alias": "C"}, "source.cluster.alias must be 'B' for flow B->A, or absent"),
        ({"enabled": "false"}, "enabled must be 'true'"),
        ({"source.cluster.bootstrap.servers": "h:1"}, "change B.bootstrap.servers in the file"),
        ({"target.cluster.security.protocol": "SSL"}, "change A.security.protocol in the file"),
        ({"target.cluster.sasl.jaas.config": "hunter2"}, "may hold a password"),
        ({"raymirror.copiers": "4"}, "change B->A.raymirror.copiers in the file"),
        ({"no.such.setting": "1"}, "no.such.setting"),
    ],
)
def test_what_a_new_flow_cannot_have_is_refused_by_name(settings: dict[str, str], says: str) -> None:
    with pytest.raises((CannotChange, ConfigError)) as refused:
        with_flow(settings)
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("flow", "says"),
    [(FlowName("A", "C"), "cluster 'C' is not in the file"), (FLOW, "A->B is in the file already")],
)
def test_a_flow_between_other_clusters_is_refused(flow: FlowName, says: str) -> None:
    with pytest.raises(CannotChange, match=says):
        file_with_flow(FILE.encode(), "f", flow, {})


def test_a_value_that_the_flow_cannot_have_is_an_error_of_its_key() -> None:
    with pytest.raises(ConfigError, match=r"A->B\.topics"):
        after({"topics": "["})
