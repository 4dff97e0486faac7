"""raymirror's reading of `mm2.properties` compared with java.util.Properties, java.util.regex and MM2 4.3.1."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from engine.base.errors import ConfigError
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.patterns import BadPattern, PatternList
from policies.selection import DEFAULT_EXCLUDE

pytestmark = pytest.mark.contract

MIRROR = "org.apache.kafka.connect.mirror"
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


PIECES = [
    "a",
    "b",
    "=",
    ":",
    " ",
    "\t",
    "\f",
    "\\",
    "\n",
    "\r",
    "\r\n",
    "#",
    "!",
    "\\u0041",
    "\\u12",
    "\\n",
    "é",
    "\x0b",
]


@MANY
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_properties_are_read_as_java_reads_them(java: Any, text: str) -> None:
    found = java.java.util.Properties()
    try:
        found.load(java.java.io.StringReader(text))
        theirs = {key: found.getProperty(key) for key in found.stringPropertyNames()}
    except Py4JJavaError:
        theirs = None
    try:
        ours = {key: entry.value for key, entry in parse_properties(text, "f").entries.items()}
    except ConfigError:
        ours = None
    if theirs is not None and text.endswith(("\\", "\\\n", "\\\r", "\\\r\n")):
        theirs.pop("", None)  # a lone backslash at the end of a file makes a key without a name, which is no use
        (ours or {}).pop("", None)
    assert ours == theirs


NAMES = [
    "a",
    "b",
    "ab",
    "aab",
    "a.b",
    "a-b",
    "A",
    "AB",
    "1",
    "a1",
    "_",
    "-",
    "orders",
    "orders.eu",
    "ORDERS",
    "a\\b",
    "",
]
SAME = [
    "a|b", "(?i)a", "[a-c]+", "[^a]", "[^]a]", "[]a]", "[a-]", "[-a]+", r"\p{Alpha}+", r"[\p{Alpha}_]+", r"\P{Alpha}",
    r"\pL+", r"\p{Lu}", r"[^\p{Alpha}]", r"\Qa.b\E", r"[\Qa.\E]+", "a{2}b", "a{1,}b?", "}", "]", "a++b?", "a?+",
    r"(?<n>a|b)b|(?<m>A)\k<m>?", "(?>a|ab)c|a", r"\d+", r"\w+", r"\W", r"a\z", r"a\Z", "^a$", r"\x61", r"\u0061",
    "(?=a)a", r"(?<!b)a", "(?i:a)b", "(?i-s:A)b", "(?s).", r"[\w-.]+", r"[\d-a]+", r"a\.b", "", "|a", "a||b",
    "(?i)[^a]", "[a||b]", "[a~~b]+", "[a#b]+", r"\p{Punct}", r"\p{Graph}+", r"\p{IsLatin}+", r"orders(\.eu)?",
]  # fmt: skip
REFUSED_BY_BOTH = ["(a", "a)", "[a", "*", "a**", "{", "a{1", "a{,2}", "[z-a]", "(?i", "(?P<n>a)", "(?#c)a", "\\y"]
REFUSED_HERE = ["[a&&b]", "[a[b]]", r"[\P{Alpha}]", r"\h", r"\R", r"\X", r"\0141", "(?x) a", "a(?i)b", r"\Qa"]
LISTS = [["(a", "b)-.*", "A"], ["a", "(?i)b", "ORDERS"], ["(?i)a|1", "ab"], ["", "a"], ["a|", "b"], ["[a", "b]"]]


def java_matches(java: Any, patterns: list[str]) -> list[str] | None:
    """Match as MM2 does: joined by |, the whole name. None for a pattern that does not compile."""
    try:
        compiled = java.java.util.regex.Pattern.compile("|".join(patterns))
    except Py4JJavaError:
        return None
    return [name for name in NAMES if compiled.matcher(name).matches()]


def matches(patterns: list[str]) -> list[str] | None:
    try:
        compiled = PatternList(patterns)
    except BadPattern:
        return None
    return [name for name in NAMES if compiled.matches(name)]


@pytest.mark.parametrize("patterns", [*([one] for one in SAME), *LISTS], ids=str)
def test_patterns_match_what_java_matches(java: Any, patterns: list[str]) -> None:
    found = matches(patterns)
    assert found is not None
    assert found == java_matches(java, patterns)


@pytest.mark.parametrize("pattern", REFUSED_BY_BOTH)
def test_patterns_that_java_refuses_are_refused(java: Any, pattern: str) -> None:
    assert matches([pattern]) is java_matches(java, [pattern]) is None


@pytest.mark.parametrize("pattern", REFUSED_HERE)
def test_what_only_java_takes_is_refused_not_misread(java: Any, pattern: str) -> None:
    assert matches([pattern]) is None
    assert java_matches(java, [pattern]) is not None


ATOMS = ["a", "b", ".", r"\.", r"\w", r"\d", "[ab]", "[^a]", r"[\w-.]", "(a|b)", "(?:b)", "(?i:a)", "-", r"\-", "_"]


@MANY
@given(st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "*", "+", "?", "{2}", "+?", "*+"])), max_size=5))
def test_ordinary_patterns_are_never_misread(java: Any, parts: list[tuple[str, str]]) -> None:
    pattern = "".join(atom + times for atom, times in parts)
    assert matches([pattern]) == java_matches(java, [pattern])


WORDS = st.lists(
    st.sampled_from(["a", "A", "B", ".", "_", "heartbeats", "checkpoints", "internal", "mm2", "-", "__"]), max_size=8
).map("".join)


@MANY
@given(WORDS, st.sampled_from([None, ".", "_", "__"]), st.booleans(), st.booleans())
def test_names_are_those_of_mm2(java: Any, topic: str, separator: str | None, internal: bool, identity: bool) -> None:
    configs = {
        "source.cluster.alias": "A",
        "replication.policy.internal.topic.separator.enabled": str(internal).lower(),
    }
    if separator is not None:
        configs["replication.policy.separator"] = separator
    package = java.org.apache.kafka.connect.mirror
    theirs = package.IdentityReplicationPolicy() if identity else package.DefaultReplicationPolicy()
    theirs.configure(configs)
    used = separator or "."
    ours: DefaultNaming
    if identity:
        ours = IdentityNaming("A", used, internal_separator=internal)
    else:
        ours = DefaultNaming(used, internal_separator=internal)
    assert ours.remote_topic("A", topic) == theirs.formatRemoteTopic("A", topic)
    assert ours.topic_source(topic) == theirs.topicSource(topic)
    assert ours.upstream_topic(topic) == theirs.upstreamTopic(topic)
    assert ours.original_topic(topic) == theirs.originalTopic(topic)
    assert ours.is_heartbeats_topic(topic) == theirs.isHeartbeatsTopic(topic)
    assert ours.is_checkpoints_topic(topic) == theirs.isCheckpointsTopic(topic)
    assert ours.offset_syncs_topic("A") == theirs.offsetSyncsTopic("A")
    assert ours.checkpoints_topic("A") == theirs.checkpointsTopic("A")
    if topic.startswith("mm2"):  # on purpose ours are more: every spelling of MM2's own topics
        assert ours.is_internal_topic(topic) >= theirs.isInternalTopic(topic)
    else:
        assert ours.is_internal_topic(topic) == theirs.isInternalTopic(topic)


BASE = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}


def mm2_source(java: Any, configs: Mapping[str, str]) -> tuple[Any, dict[str, str]] | None:
    """Return what MM2's source connector of A->B gets, and its worker; None where it copies nothing."""
    whole = java.org.apache.kafka.connect.mirror.MirrorMakerConfig({**BASE, **configs})
    flow = java.org.apache.kafka.connect.mirror.SourceAndTarget("A", "B")
    if "A->B" not in [str(pair) for pair in whole.clusterPairs()]:
        return None
    connector = java.java.lang.Class.forName(f"{MIRROR}.MirrorSourceConnector")
    typed = java.org.apache.kafka.connect.mirror.MirrorSourceConfig(whole.connectorBaseConfig(flow, connector))
    return (typed, dict(whole.workerConfig(flow))) if typed.getBoolean("enabled") else None


OWN = list(product([None, "true", "TRUE", "true ", "false"], [None, "true", "false", "false "]))


@pytest.mark.full  # MM2 looks through its class path each time
@pytest.mark.parametrize(
    ("enabled", "beats"), [(None, None), ("true", None), ("true ", "false"), ("false", "true"), (None, "false")]
)
def test_a_flow_is_on_where_mm2_would_copy(java: Any, enabled: str | None, beats: str | None) -> None:
    """One cluster for each of the ways to set a flow of its own, beside what stands at top level."""
    configs = {"clusters": ",".join(["B", *(f"c{n}" for n in range(len(OWN)))]), "bootstrap.servers": "h:1"}
    places = {"B->c0.enabled": "true", "enabled": enabled, "emit.heartbeats.enabled": beats}
    for number, (own, own_beats) in enumerate(OWN):
        places |= {f"c{number}->B.enabled": own, f"c{number}->B.emit.heartbeats.enabled": own_beats}
    configs |= {key: value for key, value in places.items() if value is not None}
    package = java.org.apache.kafka.connect.mirror
    whole = package.MirrorMakerConfig(configs)
    connector = java.java.lang.Class.forName(f"{MIRROR}.MirrorSourceConnector")
    theirs = set()
    for pair in whole.clusterPairs():
        if package.MirrorSourceConfig(whole.connectorBaseConfig(pair, connector)).getBoolean("enabled"):
            theirs.add((pair.source(), pair.target()))
    text = "".join(f"{key}={value}\n" for key, value in configs.items())
    assert {flow.name for flow in read_config(parse_properties(text, "f")).flows} == theirs


PLACES = ("", "A.", "B.", "A->B.", "B->A.", "A->B.source.", "source.cluster.")
SETTINGS = ("topics", "topics.exclude", "replication.factor", "refresh.topics.interval.seconds",
            "offset.storage.topic", "offset.storage.partitions", "offset.flush.interval.ms")  # fmt: skip


@pytest.mark.full  # MM2 looks through its class path each time
@pytest.mark.parametrize("places", [PLACES, ("", "A.", "B."), ("A.", "B.", "B->A.", "A->B.source.")], ids=str)
def test_the_place_that_wins_is_mm2s(java: Any, places: tuple[str, ...]) -> None:
    named = [place + key for place in places for key in SETTINGS]
    configs = {key: str(100 + number) for number, key in enumerate(named)} | {"A->B.enabled": "true"}
    found = mm2_source(java, configs)
    assert found is not None
    typed, worker = found
    text = "".join(f"{key}={value}\n" for key, value in {**BASE, **configs, "raymirror.unsupported": "warn"}.items())
    ours = read_config(parse_properties(text, "f")).flow(FlowName("A", "B"))
    assert ours.topics == tuple(typed.getList("topics"))
    if {"topics.exclude", "A->B.topics.exclude"} & configs.keys():
        assert ours.topics_exclude == tuple(typed.getList("topics.exclude"))
    assert ours.replication_factor == typed.getInt("replication.factor")
    assert ours.refresh_topics_s in (typed.getLong("refresh.topics.interval.seconds"), 5)
    assert ours.positions_topic == worker["offset.storage.topic"]
    assert ours.positions_partitions == int(worker.get("offset.storage.partitions", 25))
    assert ours.flush_s == int(worker.get("offset.flush.interval.ms", 60000)) / 1000


@pytest.mark.full  # MM2 looks through its class path each time
def test_the_default_of_topics_exclude_is_mm2s(java: Any) -> None:
    found = mm2_source(java, {"A->B.enabled": "true"})
    assert found is not None
    assert list(DEFAULT_EXCLUDE) == list(found[0].getList("topics.exclude"))
