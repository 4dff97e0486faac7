"""The texts of brokers that name a config which they do not know, and texts about something else."""

import pytest

from policies.sync.unknown_configs import how_to_settle, unknown_config

NAMES = ("retention.ms", "local.retention.ms", "segment.ms", "retention.ms.more")
UNKNOWN = "Unknown topic config name: "


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"InvalidConfig: {UNKNOWN}retention.ms", "retention.ms"),
        (f"InvalidConfig: {UNKNOWN}local.retention.ms", "local.retention.ms"),
        (f"InvalidConfig: {UNKNOWN}retention.ms.", "retention.ms"),
        (f"InvalidConfig: {UNKNOWN}retention.ms.more", "retention.ms.more"),
        ("InvalidConfig: config segment.ms is unknown", "segment.ms"),
        (f"InvalidConfig: {UNKNOWN}message.format.version", None),
        (f"InvalidConfig: {UNKNOWN}my.retention.ms-x", None),
        ("InvalidConfig: Invalid value -5 for configuration retention.ms: Value must be at least -1", None),
        ("UnknownTopicOrPartition: retention.ms", None),
    ],
)
def test_only_a_config_that_was_asked_for_and_is_unknown_is_found(text: str, named: str | None) -> None:
    assert unknown_config(text, NAMES) == named


def test_what_is_right_names_the_config_and_the_key() -> None:
    assert how_to_settle("x.y") == "upgrade the target, or add x.y to config.properties.exclude"
