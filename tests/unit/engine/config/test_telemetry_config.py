"""Keys of metrics and traces: defaults, values, refusals."""

import pytest

from engine.base.errors import ConfigError
from engine.config.settings import TelemetryConfig
from tests.unit.engine.config_files import mirror


def test_nothing_is_exported_unless_the_file_says_so() -> None:
    assert mirror().telemetry == TelemetryConfig(port=0, bind="127.0.0.1", per_partition=False, otlp_endpoint="")


def test_every_key_is_read() -> None:
    config = mirror(
        "raymirror.metrics.port = 9464\n"
        "raymirror.metrics.bind = 0.0.0.0\n"
        "raymirror.metrics.per.partition = true\n"
        "raymirror.metrics.max.series = 500\n"
        "raymirror.otlp.endpoint = https://collector.example:4318/base/\n"
        "raymirror.otlp.interval.ms = 2500\n"
    )
    assert config.telemetry == TelemetryConfig(
        port=9464,
        bind="0.0.0.0",
        per_partition=True,
        most_series=500,
        otlp_endpoint="https://collector.example:4318/base",
        otlp_every_s=2.5,
    )
    assert not [warning for warning in config.warnings if "raymirror." in str(warning)]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("raymirror.metrics.port = 70000", "out of range"),
        ("raymirror.metrics.bind = localhost", "is not an IP address"),
        ("raymirror.metrics.max.series = 0", "out of range"),
        ("raymirror.otlp.endpoint = collector:4318", "is not the address of a collector"),
        ("raymirror.otlp.endpoint = ftp://collector", "is not the address of a collector"),
        ("raymirror.otlp.endpoint = http://", "is not the address of a collector"),
        ("raymirror.otlp.endpoint = http://collector:x", "is not the address of a collector"),
        ("raymirror.otlp.endpoint = http://collector:4318/?a=b", "is not the address of a collector"),
        ("raymirror.otlp.interval.ms = 5", "out of range"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(line: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as refused:
        mirror(f"{line}\n")
    assert line.partition(" ")[0] in str(refused.value)


@pytest.mark.parametrize(
    "address", ["http://me:hunter2@collector:4318", "http://hunter2@collector", "http://me:hunter2@c:x"]
)
def test_a_password_in_the_endpoint_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mirror(f"raymirror.otlp.endpoint = {address}\n")
    assert "hunter2" not in str(refused.value)
    assert "OTEL_EXPORTER_OTLP_HEADERS" in str(refused.value)
