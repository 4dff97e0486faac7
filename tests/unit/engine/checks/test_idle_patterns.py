"""Patterns that match no topic of the source, and quotes: the messages of the configuration's reader."""

import pytest

from engine.base.errors import ConfigError, ConnectionLost
from engine.checks.idle_patterns import idle_groups, idle_topics, source_groups
from engine.config.config import read_config
from engine.config.file.mirror_yaml import parse_yaml
from engine.flow.ports.ports import Listed
from engine.kafka.groups.groups import KafkaGroups
from tests.unit.engine.config_files import mirror

TOPICS = ["billing", "orders-1", "orders-2"]


def told(extra: str) -> list[str]:
    config = mirror(extra)
    return [str(warning) for warning in idle_topics(config.flows[0], TOPICS, config.places)]


def test_a_pattern_that_matches_nothing_says_what_was_likely_meant() -> None:
    assert told("A->B.topics = orders-*, biling, billing\n") == [
        "line 5: A->B.topics: pattern 'orders-*' matches no topic of cluster 'A'; did you mean orders-.*?",
        "line 5: A->B.topics: pattern 'biling' matches no topic of cluster 'A'; did you mean billing?",
    ]
    assert told("topics = later.*\n") == [
        "line 5: topics: pattern 'later.*' matches no topic of cluster 'A'; if one appears later, it is copied"
    ]


def test_an_exclusion_that_matches_nothing_is_told_where_something_near_it_matches() -> None:
    assert told("topics.exclude = secret.*\n") == []
    (warning,) = told("topics.exclude = billin\n")
    assert "did you mean billin.*?" in warning


def test_a_pattern_whose_topics_are_all_excluded_says_so() -> None:
    then = ": topics.exclude wins over topics"
    why = "but topics.exclude removes"
    assert told("topics = billing, orders-.*\ntopics.exclude = .*\n") == [
        f"line 5: topics: pattern 'billing' matches 1 topic of cluster 'A', {why} it{then}",
        f"line 5: topics: pattern 'orders-.*' matches 2 topics of cluster 'A', {why} all of them{then}",
    ]
    assert told("topics = billing, orders-.*\ntopics.exclude = orders-1\n") == []
    assert told("topics.exclude = .*\n") == []


def test_limits_and_classes_that_match_no_topic_are_told() -> None:
    assert told("raymirror.bandwidth.bytes = 1000, order-.*@100, billing@10\n") == [
        (
            "line 5: raymirror.bandwidth.bytes: pattern 'order-.*' matches no topic of cluster 'A';"
            " if one appears later, it is limited"
        )
    ]
    assert told("A->B.raymirror.priority = (?i)later.*@high, ORDERS-1@high, orders-*@low\n") == [
        (
            "line 5: A->B.raymirror.priority: pattern '(?i)later.*' matches no topic of cluster 'A';"
            " if one appears later, it has this class"
        ),
        "line 5: A->B.raymirror.priority: pattern 'ORDERS-1' matches no topic of cluster 'A'; did you mean orders-1?",
        "line 5: A->B.raymirror.priority: pattern 'orders-*' matches no topic of cluster 'A'; did you mean orders-.*?",
    ]


def test_patterns_of_groups() -> None:
    config = mirror("A->B.groups = app-*, later.*\ngroups.exclude = test, nobody\n")
    assert [str(one) for one in idle_groups(config.flows[0], ["app-1", "test-2"], config.places)] == [
        "line 5: A->B.groups: pattern 'app-*' matches no consumer group of cluster 'A'; did you mean app-.*?",
        (
            "line 5: A->B.groups: pattern 'later.*' matches no consumer group of cluster 'A';"
            " if one appears later, it is mirrored"
        ),
        "line 6: groups.exclude: pattern 'test' matches no consumer group of cluster 'A'; did you mean test.*?",
    ]


@pytest.mark.parametrize("pattern", [".*", ".+", "(?s).*"])
def test_a_pattern_of_all_names_is_never_told(pattern: str) -> None:
    config = mirror(f"A->B.groups = {pattern}\ntopics = {pattern}\n")
    (flow,) = config.flows
    assert [*idle_groups(flow, [], config.places), *idle_topics(flow, [], config.places)] == []


@pytest.mark.parametrize("listed", [Listed([], loading=True), Listed([], {1: "away"})])
async def test_nothing_is_told_of_groups_that_a_broker_has_not_loaded(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_groups(_groups: KafkaGroups) -> Listed:
        return listed

    monkeypatch.setattr(KafkaGroups, "list_groups", list_groups)
    config = mirror("groups = app\n")
    assert await source_groups(Silent(), config.flows[0], config.places) is None  # type: ignore[arg-type]


class Silent:
    """A client whose cluster does not answer."""

    asked = 0

    async def metadata(self, topics: object) -> None:
        self.asked += 1
        raise ConnectionLost("h:1")


@pytest.mark.parametrize(
    ("extra", "asked"),
    [
        ("groups = app\n", 1),
        ("groups.exclude = app\n", 1),
        ("topics = x\n", 0),
        ("groups = app\nemit.checkpoints.enabled = false\n", 0),
    ],
)
async def test_groups_are_asked_for_where_a_pattern_is_about_them(extra: str, asked: int) -> None:
    client, config = Silent(), mirror(extra)
    assert await source_groups(client, config.flows[0], config.places) is None  # type: ignore[arg-type]
    assert client.asked == asked


def test_what_the_file_does_not_say_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_TOPICS", "hidden")
    assert told("") == []
    assert told("topics = ${env:RAYMIRROR_TOPICS}\n") == []


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ('A->B.topics = ".*"', "write .*"),
        ('A->B.topics = "orders, billing"', "write orders,billing"),
        ("A->B.topics.exclude = 'secret.*', x", "write secret.*,x"),
        ('groups = "app-.*"', "write app-.*"),
        ('B.bootstrap.servers = "b1:9092"', "write b1:9092"),
        ('config.providers = "file"', "write file"),
        ('A->B.topics = "${env:PATH}"', "remove them"),
    ],
)
def test_a_list_in_quotes_is_refused(line: str, right: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(f"{line}\n")
    assert (caught.value.line, caught.value.right) == (5, right)
    assert caught.value.wrong == "quotes are part of the value, but a name or address has none"


def test_aliases_in_quotes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"mm2\.properties:1: clusters: quotes .*; write A,B"):
        mirror("", 'clusters = "A, B"\n')


@pytest.mark.parametrize("line", ['replication.factor = "3"', "sync.group.offsets.enabled = 'true'"])
def test_an_error_of_a_value_in_quotes_names_them(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(f"{line}\n")
    assert caught.value.right.startswith("quotes are part of the value; remove them: ")


def test_quotes_around_any_other_value_are_noticed_and_not_repeated() -> None:
    text = 'A.consumer.client.rack = "r1"\nB.ssl.key.password = \'hunter2\'\nA->B.my.own = "x"\n'
    said = {warning.key: warning.what for warning in mirror(text).warnings if "quotes" in warning.what}
    assert said.keys() == {"A.consumer.client.rack", "B.ssl.key.password", "A->B.my.own"}
    assert set(said.values()) == {"quotes are part of the value; remove them"}
    assert "hunter2" not in str(mirror(text).warnings)


def test_quotes_within_quotes_of_a_tree_are_noticed() -> None:
    tree = (
        """{clusters: {A: {bootstrap.servers: "a:1"}, B: {bootstrap.servers: "b:1"}}, flows: {A->B: {enabled: true}}}"""
    )
    assert read_config(parse_yaml(tree, "mirror.yaml")).warnings == ()
    with pytest.raises(ConfigError, match="quotes are part of the value"):
        read_config(parse_yaml(tree.replace("enabled: true", "enabled: true, topics: '\".*\"'"), "mirror.yaml"))


@pytest.mark.parametrize(("key", "pattern", "right"), [("topics", "*", ".*"), ("groups", "*app", ".*app")])
def test_a_file_names_pattern_is_refused_with_the_regular_expression(key: str, pattern: str, right: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(f"A->B.{key} = {pattern}\n")
    assert caught.value.right == f"give Java regular expressions that match whole names, e.g. {right}"
