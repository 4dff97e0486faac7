"""The connectors of a configuration: which there are, their settings as MM2 would give them, and no password."""

import pytest

from actors.rest.connectors import ConnectorKind
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, NAMES, SOURCE, configured

PLAIN = {
    "name": SOURCE,
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "enabled": "true",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a1:9092, a2:9092",
    "target.cluster.bootstrap.servers": "b1:9092",
}


def test_each_flow_has_three_connectors() -> None:
    assert tuple(configured()) == NAMES
    assert [one.kind for one in configured().values()] == list(ConnectorKind)
    assert configured()[SOURCE].config == PLAIN


def test_two_flows_have_names_of_their_own() -> None:
    found = configured("B->A.enabled = true\n")
    assert len(found) == 6
    assert found["B->A.MirrorSourceConnector"].config["source.cluster.alias"] == "B"


@pytest.mark.parametrize(
    ("lines", "present"),
    [
        ("A->B.emit.heartbeats.enabled = false\n", (SOURCE, CHECKPOINT)),
        ("emit.checkpoints.enabled = false\n", (SOURCE, HEARTBEAT)),
        ("emit.checkpoints.enabled = false\nsync.group.offsets.enabled = true\n", NAMES),
    ],
)
def test_a_function_that_is_switched_off_has_no_connector(lines: str, present: tuple[str, ...]) -> None:
    assert tuple(configured(lines)) == present


def test_the_topics_of_the_other_connectors_are_known() -> None:
    found = configured()
    assert found[CHECKPOINT].topics == ("A.checkpoints.internal",)
    assert found[HEARTBEAT].topics == ("heartbeats",)


def test_settings_have_the_names_that_mm2_gives_them() -> None:
    found = configured(
        "topics = x\n"
        "A->B.topics = orders.*, clicks\n"
        "A->B.use.defaults.from = source\n"
        "tasks.max = 4\n"
        "A.consumer.fetch.min.bytes = 5\n"
        "B.producer.request.timeout.ms = 9000\n"
        "B.offset.flush.interval.ms = 7000\n"
        "raymirror.copiers = 2\n"
        "raymirror.metrics.port = 9464\n"
        "security.protocol = SSL\n"
        "B.security.protocol = PLAINTEXT\n"
    )[SOURCE].config
    assert found == PLAIN | {
        "topics": "orders.*, clicks",
        "use.defaults.from": "source",
        "tasks.max": "4",
        "source.consumer.fetch.min.bytes": "5",
        "producer.override.request.timeout.ms": "9000",
        "raymirror.copiers": "2",
        "source.cluster.security.protocol": "SSL",
        "target.cluster.security.protocol": "PLAINTEXT",
    }


def test_no_setting_holds_a_password() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    found = configured(
        f"A.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = {jaas}\n"
        "B.ssl.key.password = hunter2\nA.ssl.truststore.type = PEM\n"
        "raymirror.http.users = eve\nraymirror.http.user.eve.password = hunter2\n"
    )
    assert "hunter2" not in str(found)
    assert found[SOURCE].config["source.cluster.sasl.mechanism"] == "PLAIN"
