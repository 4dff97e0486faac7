"""The grants of a configuration: which features are on, and the names of their resources."""

import pytest

from engine.checks.grants import needed_grants, users_of
from policies.grants.planning import Grant, GrantNeed
from policies.grants.rights import ResourceKind, operation_name
from tests.unit.engine.config_files import mirror

TARGET_SYNCS = "A->B.offset-syncs.topic.location = target\n"


SWITCHED = {"raymirror-state.B.internal", "mm2-offsets.B.internal", "raymirror-map.B.internal"}
"""What a switchover of A->B needs on A, for the reverse flow."""


def names(extra: str, cluster: str, operation: str) -> set[str]:
    """Return the topics on a cluster that need an operation; a prefix ends in `*`."""
    return {
        f"{one.name.name}*" if one.name.is_prefix else one.name.name
        for one in needed_grants(mirror(extra))
        if one.cluster == cluster and one.kind is ResourceKind.TOPIC and operation_name(one.operation) == operation
    }


def of_kind(extra: str, cluster: str, kind: ResourceKind) -> set[tuple[str, str, GrantNeed]]:
    return {
        (operation_name(one.operation), one.name.name, one.need)
        for one in needed_grants(mirror(extra))
        if one.cluster == cluster and one.kind is kind
    }


def test_names_and_prefixes_of_topics_become_those_of_copies() -> None:
    extra = "A->B.topics = orders, clicks.*\nA->B.sync.topic.acls.enabled = false\n" + TARGET_SYNCS
    assert names(extra, "A", "DescribeConfigs") == {"orders", "clicks*", "heartbeats", *SWITCHED}
    assert names(extra, "B", "AlterConfigs") == {"A.orders", "A.clicks*", "A.heartbeats"}


def test_all_topics() -> None:
    assert names("A->B.emit.heartbeats.enabled = false\n" + TARGET_SYNCS, "A", "Read") == {"*"}
    assert names("", "B", "AlterConfigs") == {"A.*"}
    identity = "replication.policy.class = IdentityReplicationPolicy\n"
    assert names(identity, "B", "AlterConfigs") == {"*"}


def test_names_that_stay_the_same() -> None:
    identity = "replication.policy.class = IdentityReplicationPolicy\nA->B.topics = orders, clicks.*\n"
    assert names(identity, "B", "AlterConfigs") == {"orders", "clicks*", "A.heartbeats"}


@pytest.mark.parametrize("heartbeats", [True, False])
def test_a_source_is_read_only_if_syncs_are_elsewhere(heartbeats: bool) -> None:
    extra = f"A->B.heartbeats.replication.enabled = {str(heartbeats).lower()}\nB->A.emit.heartbeats.enabled = false\n"
    found = [one for one in needed_grants(mirror(extra + TARGET_SYNCS)) if one.cluster == "A"]
    assert {operation_name(one.operation) for one in found if one.need is not GrantNeed.COMMAND} <= {
        "Read",
        "Describe",
        "DescribeConfigs",
    }


def test_own_topics_are_named_one_by_one() -> None:
    assert names("A->B.topics = orders\n", "B", "Create") >= {
        "mm2-offsets.A.internal",
        "raymirror-map.A.internal",
        "raymirror-state.A.internal",
        "raymirror-events.A.internal",
        "A.checkpoints.internal",
        "heartbeats",
    }
    assert names("", "A", "Write") >= {"mm2-offset-syncs.B.internal"}
    keys = ("emit.checkpoints", "emit.offset-syncs", "emit.heartbeats")
    off = "".join(f"{key}.enabled = false\n" for key in keys) + "A->B.topics = orders\n"
    assert not names(off, "B", "Create") & {"A.checkpoints.internal", "heartbeats"}
    assert names(off, "A", "Write") == SWITCHED


def test_groups_are_described_on_the_source_and_committed_on_the_target() -> None:
    group = ResourceKind.GROUP
    assert of_kind("A->B.groups = readers\n", "A", group) == {
        ("Describe", "readers", GrantNeed.NEEDED),
        ("Read", "readers", GrantNeed.COMMAND),
    }
    without = of_kind("A->B.groups = readers\n", "B", group)
    assert ("Read", "readers", GrantNeed.COMMAND) in without
    commits = "A->B.groups = readers\nA->B.sync.group.offsets.enabled = true\n"
    assert ("Read", "readers", GrantNeed.NEEDED) in of_kind(commits, "B", group)


def test_transactional_ids_are_optional_unless_exactly_once_is_on() -> None:
    ids = ResourceKind.TRANSACTIONAL_ID
    assert of_kind("", "B", ids) == {("Write", "raymirror.A->B.", GrantNeed.OPTIONAL)}
    exactly = "B.exactly.once.source.support = enabled\n"
    assert of_kind(exactly, "B", ids) == {("Write", "raymirror.A->B.", GrantNeed.NEEDED)}


def test_acls_and_re_created_topics_need_what_nothing_else_needs() -> None:
    cluster = ResourceKind.CLUSTER
    assert ("Alter", "kafka-cluster", GrantNeed.NEEDED) in of_kind("", "B", cluster)
    no_acls = of_kind("sync.topic.acls.enabled = false\n", "B", cluster)
    assert {need for operation, _, need in no_acls if operation != "Alter"} == {GrantNeed.OPTIONAL}
    assert ("Alter", "kafka-cluster", GrantNeed.COMMAND) in no_acls
    drills = {"raymirror-drill-*"}
    assert names("", "B", "Delete") == drills
    assert names("A->B.raymirror.topic.recreated = re-create\n", "B", "Delete") == {"A.*"} | drills


def test_users_are_those_of_logins_as_far_as_they_are_known() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="${file:/no:p}";'
    assert users_of(mirror()) == {"A": "ANONYMOUS", "B": "ANONYMOUS"}
    plain = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    assert users_of(mirror(f"{plain}{login}\n"))["A"] == ""
    assert users_of(mirror(f"{plain}{login.replace('${file:/no:p}', 'p')}\n"))["A"] == "u"


def test_every_grant_says_what_it_is_for() -> None:
    def told(one: Grant) -> bool:
        return bool(one.features) and all(one.without)

    assert all(map(told, needed_grants(mirror())))


def test_refused_records_that_are_left_out_have_a_topic() -> None:
    topic = "raymirror-quarantine.A.internal"
    assert topic not in names("", "B", "Write")
    for choice in ("skip", "quarantine"):
        extra = f"raymirror.refused = {choice}\n"
        assert all(topic in names(extra, "B", operation) for operation in ("Create", "Read", "Write"))


def test_a_failback_needs_rights_on_the_source_where_copies_keep_their_names() -> None:
    rights = ("AlterConfigs", "Write", "Delete", "Create")
    assert all("orders" not in names("A->B.topics = orders\n", "A", one) for one in rights)
    identity = "replication.policy.class = IdentityReplicationPolicy\nA->B.topics = orders\n"
    assert all("orders" in names(identity, "A", one) for one in rights)


def test_a_switchover_and_a_move_commit_offsets_in_the_topics_that_producers_will_write_to() -> None:
    assert {"orders", "A.orders"} <= names("A->B.topics = orders\n", "B", "Read")


def test_groups_from_before_a_switchover_are_placed_by_what_the_reverse_flow_has_written() -> None:
    """Needed by whatever places groups where copies keep their names; the mirror says what it lacks."""
    topics = {"mm2-offsets.B.internal", "raymirror-map.B.internal", "raymirror-quarantine.B.internal"}
    identity = "replication.policy.class = IdentityReplicationPolicy\nA->B.topics = orders\n"
    found = {
        one.name.name: one.need
        for one in needed_grants(mirror(identity))
        if one.cluster == "A" and one.kind is ResourceKind.TOPIC and operation_name(one.operation) == "Read"
    }
    assert {name: found.get(name) for name in topics} == dict.fromkeys(topics, GrantNeed.OPTIONAL)
    assert "raymirror-quarantine.B.internal" not in names("A->B.topics = orders\n", "A", "Read")


def test_the_positions_of_a_reverse_flow_that_runs_have_the_name_that_it_says() -> None:
    extra = "B->A.enabled = true\nA->B.topics = orders\nB->A.topics = orders\nA.offset.storage.topic = places\n"
    assert {"places", "mm2-offsets.A.internal"} <= names(extra, "A", "Create") | names(extra, "B", "Create")
    assert "mm2-offsets.B.internal" not in names(extra, "A", "Create")
