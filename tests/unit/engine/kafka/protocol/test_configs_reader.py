"""Configs of many topics read at once: equal ones are decoded once, and one different byte is noticed."""

import struct
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.protocol.admin_codec import ConfigsReader
from policies.sync.topic_configs import DEFAULT, TOPIC_OVERRIDE, ConfigEntry

Topics = list[tuple[str, Mapping[str, ConfigEntry]]]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def answer(topics: Topics, synonyms: int = 0) -> bytes:
    """Write an answer to DescribeConfigs v1."""
    parts = [struct.pack(">ii", 0, len(topics))]
    for name, configs in topics:
        parts.append(struct.pack(">hhb", 0, -1, 2) + text(name) + struct.pack(">i", len(configs)))
        for config, one in configs.items():
            flags = struct.pack(">?b?i", one.read_only, one.source, one.sensitive, synonyms)
            parts.append(text(config) + text(one.value) + flags + synonyms * (text("s") + text("v") + b"\x01"))
    return b"".join(parts)


def entry(value: str, source: int = TOPIC_OVERRIDE) -> ConfigEntry:
    return ConfigEntry(value, source, False, False)


ENTRIES = st.builds(
    ConfigEntry,
    st.sampled_from(["", "1", "12", "ü"]),
    st.sampled_from([DEFAULT, TOPIC_OVERRIDE]),
    st.booleans(),
    st.booleans(),
)
CONFIGS = st.dictionaries(st.sampled_from(["a", "b", "ab", "retention.ms"]), ENTRIES, max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["t", "ü", "longer"]), CONFIGS), max_size=30), st.integers(0, 2))
def test_every_topic_has_its_own_configs_whatever_came_before(topics: Topics, synonyms: int) -> None:
    reader = ConfigsReader()
    for _ in range(2):  # what was met in an answer is known in the next
        found = reader.read(answer(topics, synonyms))
        assert [(one.topic, one.configs) for one in found] == [(name, dict(configs)) for name, configs in topics]


def test_topics_that_are_alike_share_their_configs() -> None:
    alike, other = {"a": entry("1"), "b": entry("2", DEFAULT)}, {"a": entry("1"), "b": entry("3", DEFAULT)}
    one, two, three, four = ConfigsReader().read(
        answer([("one", alike), ("two", other), ("three", alike), ("four", other)])
    )
    assert one.configs is three.configs
    assert two.configs is four.configs
    assert one.configs != two.configs
