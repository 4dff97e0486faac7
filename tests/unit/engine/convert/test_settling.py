"""A draft that does not load becomes one that does: what is refused is dropped, and nothing more is selected."""

import pytest

from engine.base.errors import ConfigError
from engine.convert.draft import Draft
from engine.convert.model import Given, Options, Origin
from engine.convert.settling import Settled, settle

BASE = {"A->B.enabled": "true", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}


def settled(**more: str) -> Settled:
    """A draft of one flow with more keys, settled."""
    draft = Draft("test")
    draft.flows.append("A->B")
    for line, (key, value) in enumerate({**BASE, **more}.items(), 1):
        draft.carry(key, Given(value, Origin("f", line, key)))
    return settle(draft, Options())


def values(found: Settled) -> dict[str, str]:
    return {key: one.value for key, one in found.settings.items() if key not in BASE}


def lost(found: Settled) -> list[str]:
    return [one.origin.key for one in found.dropped if not one.needless]


def test_what_loads_stays() -> None:
    found = settled(**{"A->B.topics": "orders", "tasks.max": "3"})
    assert values(found) == {"A->B.topics": "orders", "tasks.max": "3"}
    assert found.dropped == ()
    assert (found.aliases, found.flows) == (("A", "B"), ("A->B",))


def test_owners() -> None:
    found = settled(**{"A->B.topics": "x"})
    assert [found.owner(key) for key in ("A->B.topics", "A.x.y", "A", "AB.x", "tasks.max", "A->B")] == [
        *("A->B", "A", "A", "", "", "A->B"),
    ]


def test_a_whole_login_is_dropped_with_a_mechanism_that_cannot_be_used() -> None:
    found = settled(
        **{
            "B.security.protocol": "SASL_SSL",
            "B.sasl.mechanism": "NTLM",
            "B.sasl.jaas.config": "x.Y required secret=z;",
            "B.ssl.truststore.type": "PEM",
            "B.ssl.truststore.location": "/ca.pem",
            "A.security.protocol": "SSL",
        }
    )
    assert values(found) == {
        "B.ssl.truststore.type": "PEM",
        "B.ssl.truststore.location": "/ca.pem",
        "A.security.protocol": "SSL",
    }
    assert lost(found) == ["B.security.protocol", "B.sasl.mechanism", "B.sasl.jaas.config"]


def test_a_login_without_its_module_is_dropped_wherever_it_stands() -> None:
    for level in ("B.", ""):
        found = settled(**{f"{level}security.protocol": "SASL_SSL", f"{level}sasl.mechanism": "PLAIN"})
        assert values(found) == {}
        assert lost(found) == [f"{level}security.protocol", f"{level}sasl.mechanism"]


def test_a_store_that_cannot_be_read_leaves_the_login() -> None:
    found = settled(
        **{
            "B.security.protocol": "SASL_SSL",
            "B.sasl.mechanism": "PLAIN",
            "B.sasl.jaas.config": "x.PlainLoginModule required username=u password=p;",
            "B.ssl.truststore.type": "BCFKS",
            "B.ssl.truststore.location": "/t",
        }
    )
    assert values(found).keys() == {"B.security.protocol", "B.sasl.mechanism", "B.sasl.jaas.config"}
    assert lost(found) == ["B.ssl.truststore.type", "B.ssl.truststore.location"]


@pytest.mark.parametrize(
    ("key", "value", "empty"),
    [
        ("A->B.topics", "(", "A->B.topics"),
        ("A->B.topics.exclude", "a{1,2}", "A->B.topics"),
        ("topics.exclude", "(", "A->B.topics"),
        ("A->B.topic.filter.class", "x.Y", "A->B.topics"),
        ("A->B.replication.policy.class", "x.Y", "A->B.topics"),
        ("A->B.replication.policy.separator", " ", "A->B.topics"),
        ("A->B.transforms", "t", "A->B.topics"),
        ("A->B.predicates", "p", "A->B.topics"),
        ("A->B.groups", "(", "A->B.groups"),
        ("groups.exclude", "(", "A->B.groups"),
        ("A->B.group.filter.class", "x.Y", "A->B.groups"),
        ("A->B.tasks.max", "many", None),
        ("A->B.forwarding.admin.class", "x.Y", None),
    ],
)
def test_a_selection_is_never_widened(key: str, value: str, empty: str | None) -> None:
    before = {"A->B.topics": "orders", "A->B.groups": "team"}
    found = settled(**{**before, key: value})
    assert values(found) == {**before, **({empty: ""} if empty else {})}
    assert lost(found) == [key]
    if empty:
        assert found.settings[empty].why.startswith("empty, so that nothing is selected before you decide about this")


def test_an_empty_selection_says_what_it_was() -> None:
    found = settled(**{"A->B.topics": "orders", "A->B.transforms": "t"})
    assert found.settings["A->B.topics"].why.endswith("; it was orders")


def test_references_are_not_resolved_here() -> None:
    found = settled(
        **{"A.bootstrap.servers": "${env:NOT_SET_ANYWHERE}", "A.consumer.client.rack": "${file:/no/such/file:rack}"}
    )
    assert found.settings["A.bootstrap.servers"].value == "${env:NOT_SET_ANYWHERE}"
    assert found.settings["A.consumer.client.rack"].value == "${file:/no/such/file:rack}"
    assert found.dropped == ()


def test_what_raymirror_does_otherwise_is_noted_at_the_setting() -> None:
    found = settled(**{"B.producer.acks": "1", "B.consumer.max.poll.records": "1"})
    assert found.settings["B.producer.acks"].why == "not used: every append waits for all in-sync replicas (acks=all)"
    assert [note.key for note in found.notes] == ["A->B.source.consumer.isolation.level"]
    assert [(one.origin.key, one.needless) for one in found.dropped] == [("B.consumer.max.poll.records", True)]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("A.bootstrap.servers", "nonsense", "f:2: A.bootstrap.servers: 'nonsense' is not an address"),
        ("A->B.enabled", "false", "f: clusters: no flow is enabled"),
    ],
)
def test_a_draft_that_cannot_load(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^{says}"):
        settled(**{key: value})
