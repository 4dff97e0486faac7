"""What applications would miss on the target: rights by ACLs, topics, replicas, sizes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.readiness import ClientRules, UnreadyName, WrittenTopic, unready_rights, unready_topics
from policies.groups import GroupSelection
from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource

FLOW = FlowName("A", "B")
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP, TRANSACTION = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID
READ, WRITE, ALL = Operation.READ, Operation.WRITE, Operation.ALL
PREFIXED = Pattern.PREFIXED


def rules(*, same_names: bool = False) -> ClientRules:
    naming = IdentityNaming(FLOW.source) if same_names else DefaultNaming()
    selection = TopicSelection(FLOW, naming)
    return ClientRules(selection=selection, groups=GroupSelection(), copied=frozenset({"orders", "orders.eu"}))


def bind(
    resource: Resource,
    name: str,
    operation: Operation,
    who: str = "User:app",
    *,
    pattern: Pattern = Pattern.LITERAL,
    permission: Permission = ALLOW,
    host: str = "*",
) -> Binding:
    return Binding(int(resource), name, int(pattern), who, host, int(operation), int(permission))


def missing(source: list[Binding], target: list[Binding], *, same_names: bool = False) -> list[str]:
    return [one.why for one in unready_rights(source, target, rules(same_names=same_names))]


# --- what is needed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granted", "needed"),
    [
        (bind(TOPIC, "orders", WRITE), ["WRITE on topic 'orders'"]),
        (bind(TOPIC, "orders", READ), ["READ on topic 'A.orders'"]),
        (bind(TOPIC, "orders", ALL), ["WRITE on topic 'orders'", "READ on topic 'A.orders'"]),
        (bind(TOPIC, "orders", Operation.DESCRIBE), []),
        (bind(TOPIC, "elsewhere", ALL), []),
        (bind(TOPIC, "ord", WRITE, pattern=PREFIXED), ["WRITE on topic prefix 'ord'"]),
        (bind(TOPIC, "ord", READ, pattern=PREFIXED), ["READ on topic prefix 'A.ord'"]),
        (bind(TOPIC, "x", WRITE, pattern=PREFIXED), []),
        (bind(TOPIC, "*", READ), ["READ on topic prefix 'A.'"]),
        (bind(GROUP, "billing", READ), ["READ on group 'billing'"]),
        (bind(GROUP, "console-consumer-1", READ), []),
        (bind(GROUP, "*", ALL), ["READ on group '*'"]),
        (bind(GROUP, "bill", READ, pattern=PREFIXED), ["READ on group prefix 'bill'"]),
        (bind(TRANSACTION, "tx", WRITE), ["WRITE on transactional_id 'tx'"]),
        (bind(TOPIC, "orders", WRITE, permission=DENY), []),
    ],
)
def test_a_right_of_the_source_is_needed_on_the_target(granted: Binding, needed: list[str]) -> None:
    assert missing([granted], []) == [f"the target lacks: ALLOW {one} for User:app from *" for one in needed]


def test_copies_that_keep_their_names_are_read_under_them() -> None:
    assert [one.split(" for ")[0] for one in missing([bind(TOPIC, "*", READ)], [], same_names=True)] == [
        "the target lacks: ALLOW READ on topic '*'"
    ]


def test_a_right_that_the_source_denies_is_not_needed() -> None:
    granted = [bind(TOPIC, "orders", WRITE), bind(TOPIC, "orders", WRITE, permission=DENY)]
    assert missing(granted, []) == []
    other = bind(TOPIC, "orders", WRITE, "User:other", permission=DENY)
    assert len(missing([granted[0], other], [])) == 1


# --- what the target grants ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granted", "is_enough"),
    [
        (bind(TOPIC, "orders", WRITE), True),
        (bind(TOPIC, "orders", ALL, "User:*"), True),
        (bind(TOPIC, "*", WRITE), True),
        (bind(TOPIC, "or", WRITE, pattern=PREFIXED), True),
        (bind(TOPIC, "orders", READ), False),
        (bind(TOPIC, "orders.eu", WRITE), False),
        (bind(TOPIC, "orders.", WRITE, pattern=PREFIXED), False),
        (bind(TOPIC, "orders", WRITE, host="10.0.0.1"), False),
        (bind(GROUP, "orders", WRITE), False),
        (bind(TOPIC, "orders", WRITE, "User:else"), False),
        (bind(TOPIC, "orders", WRITE)._replace(pattern=99), False),
    ],
)
def test_a_grant_counts_if_it_covers_the_right(granted: Binding, is_enough: bool) -> None:
    assert (missing([bind(TOPIC, "orders", WRITE)], [granted]) == []) is is_enough


def test_a_literal_grant_of_a_prefixs_name_is_not_the_prefix() -> None:
    wanted = bind(TOPIC, "orders", WRITE, pattern=PREFIXED)
    assert len(missing([wanted], [bind(TOPIC, "orders", WRITE)])) == 1
    assert missing([wanted], [wanted]) == []
    assert len(missing([bind(TOPIC, "*", WRITE)], [bind(TOPIC, "", WRITE, pattern=PREFIXED)])) == 1


def test_a_denial_of_the_target_wins() -> None:
    wanted = bind(TOPIC, "orders", WRITE)
    denial = bind(TOPIC, "ord", ALL, "User:*", pattern=PREFIXED, permission=DENY)
    (one,) = unready_rights([wanted], [wanted, denial], rules())
    assert (one.name, one.subject) == (UnreadyName.DENIED, "User:app")
    assert one.why == "the target has: DENY ALL on topic prefix 'ord' for User:* from *"


@given(st.lists(st.sampled_from([TOPIC, GROUP, TRANSACTION]), max_size=4), st.sampled_from([READ, WRITE, ALL]))
def test_a_target_with_the_same_bindings_lacks_nothing(resources: list[Resource], operation: Operation) -> None:
    source = [bind(resource, "orders", operation) for resource in resources]
    assert missing(source, source, same_names=True) == []
    assert len(missing(source, [], same_names=True)) == len(set(missing(source, [], same_names=True)))


# --- topics ----------------------------------------------------------------------------------------------------------

GOOD = WrittenTopic(replicas=3, min_insync=2, max_bytes=1000)


@pytest.mark.parametrize(
    ("there", "names"),
    [
        ({"t": GOOD}, []),
        ({}, ["no-topic"]),
        ({"t": msgspec.structs.replace(GOOD, replicas=1)}, ["too-few-replicas"]),
        ({"t": msgspec.structs.replace(GOOD, replicas=0)}, []),
        ({"t": msgspec.structs.replace(GOOD, max_bytes=999)}, ["smaller-messages"]),
        ({"t": WrittenTopic(replicas=1, min_insync=2, max_bytes=1)}, ["too-few-replicas", "smaller-messages"]),
    ],
)
def test_what_a_producer_would_miss(there: dict[str, WrittenTopic], names: list[str]) -> None:
    found = unready_topics({"t": GOOD}, there)
    assert [one.name.value for one in found] == names
    assert all(one.subject == "t" and len(one.why) > 20 for one in found)
