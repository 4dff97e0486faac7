"""Reads the telemetry settings of a mirror: where metrics and traces go."""

import ipaddress
from urllib.parse import urlsplit

from engine.config.property_reader import PropertyReader
from engine.config.settings import TelemetryConfig

_DEFAULTS = TelemetryConfig()


def read_telemetry(reader: PropertyReader) -> TelemetryConfig:
    """Return the mirror's telemetry settings. Raises ConfigError."""
    return TelemetryConfig(
        port=reader.number("raymirror.metrics.port", _DEFAULTS.port, 0, 65_535),
        bind=_address(reader, "raymirror.metrics.bind"),
        per_partition=reader.flag("raymirror.metrics.per.partition", default=_DEFAULTS.per_partition),
        most_series=reader.number("raymirror.metrics.max.series", _DEFAULTS.most_series, 1, 10_000_000),
        otlp_endpoint=_endpoint(reader, "raymirror.otlp.endpoint"),
        otlp_every_s=reader.number("raymirror.otlp.interval.ms", 15_000, 1_000, 3_600_000) / 1000,
    )


def _address(reader: PropertyReader, key: str) -> str:
    text = reader.text(key, _DEFAULTS.bind)
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise reader.error(key, f"{text!r} is not an IP address", "write e.g. 127.0.0.1, 0.0.0.0 or ::") from None


def _endpoint(reader: PropertyReader, key: str) -> str:
    """Return the base URL without a slash at its end; the error about a URL with a password does not repeat it."""
    text = reader.text(key, "")
    if not text:
        return ""
    if "@" in text:
        right = "put credentials into the environment: OTEL_EXPORTER_OTLP_HEADERS"
        raise reader.error(key, "the address contains a user name or a password", right)
    if not _is_base_url(text):
        raise reader.error(key, f"{text!r} is not the address of a collector", "write e.g. http://collector:4318")
    return text.rstrip("/")


def _is_base_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and not url.query + url.fragment
    except ValueError:
        return False
