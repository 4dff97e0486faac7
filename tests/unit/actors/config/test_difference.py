"""The difference between two configurations: flow by flow, key by key, without passwords, and impossible changes."""

import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.config.config_ref import load, refer
from actors.config.difference import (
    ADDED,
    CHANGED,
    HIDDEN,
    MIRROR,
    MOVES,
    NEVER,
    NEXT_START,
    NOT_SET,
    NOTHING,
    NOWHERE,
    REMOVED,
    SPARK_BEGINS_AGAIN,
    STAYS,
    UNTOUCHED,
    ChangeRow,
    ConfigDifference,
    ConfigSide,
    difference,
)

PLACES = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"
BASE = PLACES + "A->B.enabled = true\nA->B.topics = orders\nA->C.enabled = true\n"


def side(folder: Path, text: str) -> ConfigSide:
    path = folder / "mm2.properties"
    path.write_text(text)
    ref = refer(path)
    return ConfigSide(load(ref), ref.kept, ref.digest)


def compare(folder: Path, before: str, after: str) -> ConfigDifference:
    return difference(side(folder, before), side(folder, after))


def changes(found: ConfigDifference) -> dict[str, str]:
    return {row.flow: row.change for row in found.rows if not row.key}


def keys(found: ConfigDifference) -> list[tuple[str, str, str, str]]:
    return [(row.flow, row.key, row.running, row.new) for row in found.rows if row.key]


def test_a_key_of_one_flow_changes_that_flow_alone(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE.replace("= orders", "= orders, bills"))
    assert changes(found) == {"A->B": CHANGED, "A->C": UNTOUCHED}
    assert keys(found) == [("A->B", "A->B.topics", "orders", "orders, bills")]
    assert found.rows[0].takes_effect == STAYS, "copiers do not read patterns"
    assert not found.refused


def test_what_copiers_read_says_that_they_are_replaced(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE + "A->B.producer.override.request.timeout.ms = 9000\n")
    assert [(row.flow, row.takes_effect) for row in found.rows if not row.key] == [("A->B", MOVES), ("A->C", "")]
    assert keys(found) == [("A->B", "A->B.producer.override.request.timeout.ms", NOT_SET, "9000")]


def test_flows_come_and_go(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE.replace("A->C.enabled = true", "B->C.enabled = true"))
    assert changes(found) == {"A->B": UNTOUCHED, "A->C": REMOVED, "B->C": ADDED}
    assert found.named(ADDED) == ("B->C",)
    assert ("B->C", "B->C.enabled", NOT_SET, "true") in keys(found)
    assert ("A->C", "A->C.enabled", "true", NOT_SET) in keys(found)


def test_the_way_back_added_leaves_the_copiers_of_the_first_way(tmp_path: Path) -> None:
    """Heartbeats of a pair that is no flow are a flow's beside it, until the pair is a flow."""
    one = PLACES + "A->B.enabled = true\n"
    found = compare(tmp_path, one, one + "B->A.enabled = true\n")
    assert changes(found) == {"A->B": UNTOUCHED, "B->A": ADDED}


def test_a_key_of_a_cluster_changes_its_flows(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE.replace("b:1", "b:1,b2:1"))
    assert changes(found) == {"A->B": CHANGED, "A->C": UNTOUCHED}
    assert keys(found) == [("A->B", "B.bootstrap.servers", "b:1", "b:1,b2:1")]


def test_a_key_above_all_changes_every_flow_that_has_no_own(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE + "topics = bills\n")
    assert changes(found) == {"A->B": UNTOUCHED, "A->C": CHANGED}
    assert keys(found) == [("A->C", "topics", NOT_SET, "bills")]


SASL = (
    "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = PLAIN\nB.sasl.jaas.config = org.apache.kafka.common.\\\n"
)
LOGIN = 'security.plain.PlainLoginModule required username="u" password="{}";\n'


def test_a_password_in_an_address_is_seen_and_not_shown(tmp_path: Path) -> None:
    line = "A.sasl.oauthbearer.token.endpoint.url = https://me:{}@issuer.example/token\n"
    found = compare(tmp_path, BASE + line.format("geheim"), BASE + line.format("hunter2"))
    assert ("A->B", "A.sasl.oauthbearer.token.endpoint.url", HIDDEN, HIDDEN) in keys(found)
    assert "geheim" not in str(found)


def test_a_password_that_changed_is_seen_and_not_shown(tmp_path: Path) -> None:
    before, after = (BASE + SASL + LOGIN.format(word) for word in ("old-secret", "new-secret"))
    found = compare(tmp_path, before, after)
    assert changes(found) == {"A->B": CHANGED, "A->C": UNTOUCHED}
    assert keys(found) == [("A->B", "B.sasl.jaas.config", HIDDEN, HIDDEN)]
    assert found.rows[0].takes_effect == MOVES, "connections are made again with the new one"
    assert "secret" not in str(found)


def test_a_login_that_is_new_is_not_shown(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE + SASL + LOGIN.format("new-secret"))
    assert ("A->B", "B.sasl.jaas.config", NOT_SET, HIDDEN) in keys(found)
    assert ("A->B", "B.sasl.jaas.config", HIDDEN, NOT_SET) in keys(
        compare(tmp_path, BASE + SASL + LOGIN.format("old-secret"), BASE)
    )


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("A->B.replication.policy.separator = _\n", "A->B.replication.policy.separator"),
        ("offset.storage.topic = elsewhere\n", "offset.storage.topic"),
        ("A->B.raymirror.connector.name = other\n", "A->B.raymirror.connector.name"),
        ("A->B.offset-syncs.topic.location = target\n", "A->B.offset-syncs.topic.location"),
    ],
)
def test_where_copies_and_positions_are_cannot_change(tmp_path: Path, line: str, key: str) -> None:
    found = compare(tmp_path, BASE, BASE + line)
    assert any(f"A->B: {key}: {NOT_SET} -> " in why for why in found.refused), found.refused
    assert all("raymirror stop" in why for why in found.refused)
    assert {row.takes_effect for row in found.rows if row.flow == "A->B"} == {NEVER}
    assert not compare(tmp_path, BASE + line, BASE + line).refused


def test_all_that_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    lines = "A->B.replication.policy.separator = _\nA->C.raymirror.connector.name = other\n"
    assert len(compare(tmp_path, BASE, BASE + lines).refused) == 2


def test_a_flow_that_is_added_may_be_anything(tmp_path: Path) -> None:
    before = PLACES + "A->B.enabled = true\n"
    after = before + "A->C.enabled = true\nA->C.replication.policy.separator = _\nA->C.raymirror.connector.name = x\n"
    assert not compare(tmp_path, before, after).refused


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("raymirror.deployment.id = mine\n", NEXT_START),
        ("raymirror.metrics.port = 9999\n", "now"),
        ("raymirror.spark = on\n", SPARK_BEGINS_AGAIN),
    ],
)
def test_what_belongs_to_no_flow_is_told_apart(tmp_path: Path, line: str, then: str) -> None:
    found = compare(tmp_path, BASE, BASE + line)
    key, _, value = line.strip().partition(" = ")
    row = ChangeRow(flow=MIRROR, change=CHANGED, key=key, running=NOT_SET, new=value, takes_effect=then)
    assert found.rows[-1] == row
    assert not found.is_none


def test_another_place_of_the_audit_trail_changes_every_flow(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE + f"raymirror.storage = file://{tmp_path}\n")
    assert changes(found) == {"A->B": CHANGED, "A->C": CHANGED}


def test_what_nothing_uses_is_said_so(tmp_path: Path) -> None:
    found = compare(tmp_path, BASE, BASE + "A->B.emit.heartbeats.enabled = true\n")
    assert changes(found) == {"A->B": UNTOUCHED, "A->C": UNTOUCHED}
    row = found.rows[-1]
    assert (row.flow, row.key, row.takes_effect) == (NOWHERE, "A->B.emit.heartbeats.enabled", NOTHING)
    assert found.is_none


def test_other_words_for_the_same_change_nothing(tmp_path: Path) -> None:
    lines = BASE.splitlines(keepends=True)
    found = compare(tmp_path, BASE, "# a comment\n" + "".join(reversed(lines)))
    assert found.is_none
    assert found.running != found.new


_TOPICS = st.text(string.ascii_lowercase, min_size=1, max_size=4)
_FLOWS = st.dictionaries(st.sampled_from(["A->B", "A->C", "C->B"]), _TOPICS, min_size=1)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=_FLOWS, after=_FLOWS)
def test_every_flow_is_named_once_and_rightly(tmp_path: Path, before: dict[str, str], after: dict[str, str]) -> None:
    def text(flows: dict[str, str]) -> str:
        quiet = "emit.heartbeats.enabled = false\n"
        return (
            PLACES + quiet + "".join(f"{name}.enabled = true\n{name}.topics = {one}\n" for name, one in flows.items())
        )

    found = compare(tmp_path, text(before), text(after))
    expected = dict.fromkeys(after.keys() - before.keys(), ADDED) | dict.fromkeys(before.keys() - after.keys(), REMOVED)
    for name in before.keys() & after.keys():
        expected[name] = UNTOUCHED if before[name] == after[name] else CHANGED
    assert changes(found) == expected
    assert found.is_none == (before == after)
    assert {row.flow for row in found.rows if row.key} <= expected.keys() - set(found.named(UNTOUCHED))


def test_keys_of_the_http_server_belong_to_the_mirror_and_show_no_password(tmp_path: Path) -> None:
    port = "raymirror.http.port = 8083\n"
    before = BASE + port + "raymirror.http.users = eve\nraymirror.http.user.eve.password = hunter2\n"
    after = (
        BASE
        + "\n"
        + port
        + (
            "raymirror.http.users = eve, ci\n"
            "raymirror.http.user.eve.password = swordfish\nraymirror.http.user.ci.token = ${env:T}\n"
        )
    )
    found = compare(tmp_path, before, after)
    assert changes(found) == {"A->B": UNTOUCHED, "A->C": UNTOUCHED}
    assert keys(found) == [
        (MIRROR, "raymirror.http.users", "eve", "eve, ci"),
        (MIRROR, "raymirror.http.user.ci.token", NOT_SET, HIDDEN),
        (MIRROR, "raymirror.http.user.eve.password", HIDDEN, HIDDEN),
    ]
    assert "hunter2" not in str(found)
    assert "swordfish" not in str(found)
    assert compare(tmp_path, before, f"# a comment\n{before}").is_none
