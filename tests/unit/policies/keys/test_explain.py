"""What a key does, its values, and where they come from."""

import pytest

from policies.keys.explain import File, KeyExplanation, KeyValue, explain
from policies.model import FlowName

ENTRIES = {
    "topics": "orders, clicks ",
    "A->B.topics": "orders",
    "A.topics": "x",
    "A->B.source.consumer.request.timeout.ms": "5000",
    "B.admin.request.timeout.ms": "6000",
    "security.protocol": "SSL",
    "B.security.protocol": "PLAINTEXT",
    "raymirror.metrics.port": "9000",
    "config.providers.vault.class": "FileConfigProvider",
    "listeners": "http://:1",
    "A->B.topcis": "x",
}
FILE = File(
    {key: (value, number) for number, (key, value) in enumerate(ENTRIES.items(), 1)},
    ("A", "B"),
    (FlowName("A", "B"), FlowName("B", "A")),
)


def values(key: str) -> list[tuple[str, str, int]]:
    return [(one.of, one.value, one.line) for one in explain(key, FILE).values]


def test_a_key_has_a_value_for_each_flow_from_the_place_that_wins() -> None:
    found = explain("topics", FILE)
    assert found.values == (
        KeyValue("A->B", "orders", "A->B.topics", 2),
        KeyValue("B->A", "orders, clicks", "topics", 1),
    )
    assert (found.answer, found.default) == ("read, not quite as in MM2", "`.*`")
    assert found.places == ("A->B.topics", "topics")
    assert "Java patterns" in found.meaning
    assert "class union" in found.differs


def test_a_key_with_its_prefix_is_explained_for_that_flow_or_cluster() -> None:
    assert values("A->B.topics") == [("A->B", "orders", 2)]
    assert values("B.security.protocol") == [("B", "PLAINTEXT", 7)]
    assert values("security.protocol") == [("A", "SSL", 6), ("B", "PLAINTEXT", 7)]
    assert values("raymirror.metrics.port") == [("the mirror", "9000", 8)]
    assert values("config.providers.vault.class") == [("the mirror", "FileConfigProvider", 9)]


def test_a_value_that_nothing_sets_is_the_default() -> None:
    assert explain("replication.factor", FILE).values[0] == KeyValue("A->B", "2")
    assert values("A->B.replication.policy.separator") == [("A->B", ".", 0)]


def test_a_key_of_many_clients_has_a_value_for_each_of_them() -> None:
    assert values("request.timeout.ms")[:4] == [
        ("A->B, consumer", "5000", 4),
        ("B->A, consumer", "30000", 0),
        ("A->B, producer", "30000", 0),
        ("B->A, producer", "30000", 0),
    ]
    admin = [("A->B, admin, target", "6000", 5), ("B->A, admin, source", "6000", 5)]
    assert values("B.admin.request.timeout.ms") == admin
    found = explain("B.admin.request.timeout.ms", FILE)
    assert found.places[1] == "X.admin.request.timeout.ms"
    assert not any("consumer" in place for place in found.places)


LOGINS = File(
    {
        "B.sasl.jaas.config": ("b", 1),
        "B.producer.sasl.jaas.config": ("writes", 2),
        "A->B.target.admin.sasl.jaas.config": ("asks", 3),
        "A->B.admin.sasl.jaas.config": ("bare", 4),
    },
    ("A", "B"),
    (FlowName("A", "B"),),
)


def test_a_login_has_a_value_for_each_cluster_and_for_each_client_with_its_own() -> None:
    found = explain("sasl.jaas.config", LOGINS)
    assert [(one.of, one.value, one.line) for one in found.values] == [
        ("A", "none", 0),
        ("B", "b", 1),
        ("A->B, producer", "writes", 2),
        ("A->B, source admin", "bare", 4),
        ("A->B, target admin", "asks", 3),
        ("A->B, target syncs", "writes", 2),
    ]
    assert found.places == ("X.sasl.jaas.config", "sasl.jaas.config")


def test_the_login_of_one_client() -> None:
    found = explain("B.producer.sasl.jaas.config", LOGINS)
    assert [one.of for one in found.values] == ["A->B, producer", "A->B, target syncs"]
    assert found.places[:2] == ("A->B.producer.override.sasl.jaas.config", "B.producer.sasl.jaas.config")
    unset = explain("A.consumer.sasl.mechanism", LOGINS)
    assert (unset.values, unset.answer) == ((), "read, not quite as in MM2")
    assert unset.places[0] == "A->B.source.consumer.sasl.mechanism"


def test_a_key_at_a_place_where_it_is_not_read_says_so() -> None:
    in_file = explain("A.topics", FILE)
    assert (in_file.answer, in_file.values) == ("refused", ())
    assert "write A->B.topics" in in_file.why
    elsewhere = explain("B.topics", FILE)
    assert (elsewhere.answer, elsewhere.why) == ("", "not read here; it may be set as A->B.topics, topics")


def of_clients(*values: str) -> File:
    keys = [f"A.{client}.security.protocol" for client in ("consumer", "producer", "admin")]
    entries = {key: (value, number) for number, (key, value) in enumerate(zip(keys, values, strict=True), 1)}
    return File(entries, ("A", "B"), (FlowName("A", "B"),))


def test_what_all_clients_of_a_cluster_say_is_its_value() -> None:
    found = explain("security.protocol", of_clients("SSL", "SSL", "SSL "))
    assert found.values == (
        KeyValue("A", "SSL", "A.consumer.security.protocol", 1),
        KeyValue("B", "PLAINTEXT"),
    )
    one = explain("A.admin.security.protocol", of_clients("SSL", "SSL", "SSL"))
    assert (one.answer, one.values) == (found.answer, found.values[:1])


def test_what_one_client_says_otherwise_is_its_own() -> None:
    found = explain("security.protocol", of_clients("SSL", "SSL", "PLAINTEXT")).values
    assert found[0] == KeyValue("A", "PLAINTEXT")
    assert {one.of: one.value for one in found}["A->B, consumer"] == "SSL"


def test_a_key_of_a_flow_that_is_off_has_no_value() -> None:
    off = File(FILE.entries, FILE.aliases, (FlowName("A", "B"),))
    found = explain("B->A.topics", off)
    assert (found.values, found.why) == ((), "no enabled flow uses it")


@pytest.mark.parametrize(
    ("key", "answer", "why"),
    [
        ("listeners", "not needed", "REST"),
        ("A->B.topcis", "refused", "did you mean A->B.topics?"),
        ("transforms", "refused", "no transformations"),
        ("A.consumer.group.id", "not needed", "without a consumer group"),
        ("A->B.producer.override.metric.reporters", "warned of", "raymirror.metrics.port"),
        ("consumer.poll.timeout.ms", "not needed", "MM2's threads"),
        ("rest.anything", "not needed", "REST"),
    ],
)
def test_a_key_that_is_not_read_has_its_answer(key: str, answer: str, why: str) -> None:
    found = explain(key, FILE)
    assert (found.answer, found.values) == (answer, ())
    assert why in found.why


def test_a_key_that_nobody_knows() -> None:
    why = "not a key of MM2, Kafka's clients or raymirror"
    assert explain("groups.exlude", FILE) == KeyExplanation(
        key="groups.exlude", answer="", why=why, meant="groups.exclude"
    )
    assert explain("x.y.z", FILE).meant == ""
