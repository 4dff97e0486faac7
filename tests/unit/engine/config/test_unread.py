"""Keys that raymirror does not read: refused all at once, warned of with their lines, or in one quiet line."""

import pytest

from engine.base.errors import ConfigError
from engine.config.config import plain_settings, read_config, read_kept, reread_config
from engine.config.file.properties import Properties, parse_properties
from tests.unit.engine.config_files import BASE, mirror

FILTER = "A->B.topic.filter.class = com.acme.Filter\n"


def parsed(extra: str) -> Properties:
    return parse_properties(BASE + extra, "mm2.properties")


def test_a_mistyped_key_is_refused_with_the_right_one() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror("# which\nA->B.topcis = orders\n")
    assert str(caught.value) == "mm2.properties:6: A->B.topcis: no such key; did you mean A->B.topics?"


def test_all_that_is_refused_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(f"A->B.grups = x\n{FILTER}")
    assert caught.value.line == 5
    for part in (
        "did you mean A->B.groups?",
        "  mm2.properties:6: A->B.topic.filter.class: ",
        "raymirror.unsupported = warn",
    ):
        assert part in str(caught.value)


def test_what_is_not_supported_is_a_warning_where_that_is_asked_for() -> None:
    (warning,) = mirror(f"{FILTER}raymirror.unsupported = Warn\n").warnings
    assert (warning.line, warning.key) == (5, "A->B.topic.filter.class")
    assert "topics.exclude" in warning.what
    with pytest.raises(ConfigError, match=r"raymirror\.unsupported: 'ask' is unknown; write refuse or warn"):
        mirror("raymirror.unsupported = ask\n")


def test_what_means_nothing_here_is_one_quiet_line() -> None:
    config = mirror("config.storage.topic = x\nlisteners = http://:8083\nstatus.storage.topic = x\n")
    assert config.warnings == ()
    note = next(str(note) for note in config.notes if "nothing is lost" in note.key)
    assert note.startswith(
        "not needed here, and nothing is lost: config.storage.topic, status.storage.topic (Connect's own topics are"
        " not needed); listeners (no REST server"
    )


SHIPPED = """
sync.topic.acls.enabled = false
tasks.max = 10
name = mirror-maker-connector
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset.storage.replication.factor = 1
A.offset.storage.replication.factor = 1
status.storage.replication.factor = 1
B.config.storage.replication.factor = 1
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8080
rest.advertised.host.name = h
emit.checkpoints.interval.seconds = 5
sync.group.offsets.enabled = true
replication.policy.separator = _
topic.filter.class = org.apache.kafka.connect.mirror.DefaultTopicFilter
group.filter.class = org.apache.kafka.connect.mirror.DefaultGroupFilter
forwarding.admin.class = org.apache.kafka.clients.admin.ForwardingAdmin
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
value.converter.schemas.enable = false
header.converter = org.apache.kafka.connect.converters.ByteArrayConverter
errors.log.enable = true
errors.log.include.messages = true
errors.retry.timeout = 60000
errors.tolerance = none
transforms =
admin.timeout.ms = 120000
consumer.poll.timeout.ms = 2000
config.action.reload = restart
tasks.max.enforce = true
plugin.path = /opt/plugins
topic.creation.enable = false
connector.client.config.override.policy = All
B.offset.flush.timeout.ms = 5000
A.consumer.max.poll.records = 2000
A.consumer.receive.buffer.bytes = 1048576
A.consumer.group.id = mm
A.consumer.enable.auto.commit = false
A.admin.request.timeout.ms = 60000
B.producer.batch.size = 500000
B.producer.linger.ms = 100
B.producer.buffer.memory = 67108864
B.producer.max.request.size = 26214400
B.producer.enable.idempotence = true
A->B.producer.override.batch.size = 327680
A->B.source.consumer.fetch.max.wait.ms = 500
A->B.consumer.max.poll.records = 20000
A.ssl.protocol = TLSv1.2
A.ssl.enabled.protocols = TLSv1.2,TLSv1.3
group.initial.rebalance.delay.ms = 0
"""
"""What files of MM2's users hold, and Kafka's own example (config/connect-mirror-maker.properties)."""


def test_files_of_mm2s_users_are_taken() -> None:
    warnings = {warning.key: warning.what for warning in mirror(SHIPPED).warnings}
    assert warnings.keys() == {"group.initial.rebalance.delay.ms"}


def test_a_secret_is_in_no_text_of_it() -> None:
    secret = 'B.consumer.ssl.engine.factory.class = x password="hunter2";\n'
    with pytest.raises(ConfigError) as caught:
        mirror(secret)
    told = mirror(f"{secret}raymirror.unsupported = warn\n")
    assert "hunter2" not in f"{caught.value} {told.warnings} {told.notes}"


def test_a_mirror_that_was_started_is_not_refused_later() -> None:
    """A newer release that refuses more, or a file that is edited meanwhile, ends no mirror."""
    refused = "transforms = mask\n"
    assert [warning.key for warning in reread_config(parsed(refused)).warnings] == ["transforms"]
    kept = plain_settings(parsed(refused))
    assert read_kept(kept, parsed("A.consumer.sasl.jaas.config = x\n")).flows
    with pytest.raises(ConfigError):
        read_config(parsed(refused))


@pytest.mark.parametrize("key", ["topic.filter.class", "group.filter.class", "config.property.filter.class"])
def test_filters_are_refused_alike(key: str) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown filter 'com\.acme\.Filter'; use Default.*; or set raymirror\.unsupported"
    ):
        mirror(f"A->B.{key} = com.acme.Filter\n")
    (warning,) = mirror(f"A->B.{key} = com.acme.Filter\nraymirror.unsupported = warn\n").warnings
    assert warning.what.startswith("unknown filter 'com.acme.Filter', which is not used; use Default")
