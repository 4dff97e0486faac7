"""The fence, judged by what Kafka's authorizer would say before and after it: a model of findAclRule."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.fence import (
    ANYBODY,
    EveryoneRule,
    FenceFacts,
    FencePlan,
    FenceRefusal,
    covers,
    plan_fence,
    taken_back,
)
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource

OWN = "User:mirror"
TOPICS = ("orders", "orders.eu", "clicks")
PRINCIPALS = ("User:a", "User:b", OWN, ANYBODY)
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str,
    principal: str,
    operation: Operation = Operation.WRITE,
    permission: Permission = ALLOW,
    pattern: Pattern = Pattern.LITERAL,
    host: str = "*",
) -> Binding:
    return Binding(Resource.TOPIC, name, pattern, principal, host, operation, permission)


def may(bindings: Collection[Binding], principal: str, operation: Operation, topic: str, *, everyone: bool) -> bool:
    """Decide as Kafka does, for one host: the model of this test."""
    covering = [one for one in bindings if covers(one, topic)]
    found = {
        one.permission
        for one in covering
        if one.principal in (principal, ANYBODY) and one.operation in (operation, Operation.ALL)
    }
    if DENY in found:
        return False
    return ALLOW in found or (everyone and not covering)


def plan(bindings: Collection[Binding], *named: str, everyone: EveryoneRule = EveryoneRule.UNKNOWN) -> FencePlan:
    facts = FenceFacts(topics=TOPICS, bindings=bindings, own=OWN, named=named, everyone=everyone)
    return plan_fence(facts)


BINDINGS = st.sets(
    st.builds(
        acl,
        st.sampled_from(["*", "orders", "orders.", "o", "clicks", "other"]),
        st.sampled_from(PRINCIPALS),
        st.sampled_from([Operation.READ, Operation.WRITE, Operation.ALL]),
        st.sampled_from([ALLOW, DENY]),
        st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
    ),
    max_size=8,
)


@given(bindings=BINDINGS, named=st.sets(st.sampled_from(["User:a", "User:b"])), everyone=st.booleans())
def test_a_fence_stops_every_producer_and_nothing_else(bindings: set[Binding], named: set[str], everyone: bool) -> None:
    rule = EveryoneRule.YES if everyone else EveryoneRule.NO
    found = plan(bindings, *named, everyone=rule)
    if found.refused:
        return
    after = bindings | set(found.make)
    for topic in (*TOPICS, "other"):
        for principal in ("User:a", "User:b", "User:stranger", OWN):
            for operation in (Operation.READ, Operation.WRITE):
                before = may(bindings, principal, operation, topic, everyone=everyone)
                now = may(after, principal, operation, topic, everyone=everyone)
                is_known = principal in named or (
                    principal in ("User:a", "User:b")
                    and not may(bindings, "User:stranger", operation, topic, everyone=everyone)
                )
                if topic in TOPICS and operation is Operation.WRITE and is_known:
                    assert not now
                elif operation is Operation.READ or principal == OWN or topic == "other":
                    assert now == before


@given(bindings=BINDINGS, named=st.sets(st.sampled_from(["User:a", "User:b"])), everyone=st.sampled_from(EveryoneRule))
def test_taking_a_fence_back_leaves_what_was_there(
    bindings: set[Binding], named: set[str], everyone: EveryoneRule
) -> None:
    found = plan(bindings, *named, everyone=everyone)
    assert not set(found.make) & bindings
    assert (bindings | set(found.make)) - set(taken_back(found.make)) == bindings
    assert all(not (one.permission == DENY and one.principal == ANYBODY) for one in found.make)
    assert all(one.principal != OWN for one in found.make)


@given(bindings=BINDINGS)
def test_nobody_is_locked_out_at_any_moment(bindings: set[Binding]) -> None:
    found = plan(bindings, "User:a", everyone=EveryoneRule.YES)
    for made in (found.make, tuple(reversed(taken_back(found.make)))):
        for count in range(len(made) + 1):
            there = bindings | set(made[:count])
            for topic in TOPICS:
                before = may(bindings, "User:stranger", Operation.READ, topic, everyone=True)
                assert may(there, "User:stranger", Operation.READ, topic, everyone=True) == before


def test_writers_are_found_by_literals_prefixes_and_wildcards() -> None:
    found = plan(
        [
            acl("orders", "User:a"),
            acl("orders", "User:b", Operation.READ),
            acl("ord", "User:c", Operation.ALL, pattern=Pattern.PREFIXED),
            acl("*", "User:d", host="10.0.0.7"),
            acl("*", OWN, Operation.ALL),
        ]
    )
    assert found.refused == ()
    assert [(one.name, one.principal) for one in found.make] == [
        ("clicks", "User:d"),
        ("orders", "User:a"),
        ("orders", "User:c"),
        ("orders", "User:d"),
        ("orders.eu", "User:c"),
        ("orders.eu", "User:d"),
    ]
    assert {(one.pattern, one.host, one.operation, one.permission) for one in found.make} == {
        (Pattern.LITERAL, "*", Operation.WRITE, DENY)
    }
    assert found.principals == ("User:a", "User:c", "User:d")


def test_a_denial_that_was_there_is_not_made_and_not_removed() -> None:
    there = acl("orders", "User:a", permission=DENY)
    found = plan([acl("*", "User:a"), there])
    assert [one.name for one in found.make] == ["clicks", "orders.eu"]
    assert found.principals == ("User:a",)


def refusals(found: FencePlan) -> list[FenceRefusal]:
    return [one.name for one in found.refused]


def test_a_topic_without_acls() -> None:
    bindings = [acl("orders", "User:a", pattern=Pattern.PREFIXED)]
    unknown = plan(bindings, "User:a")
    assert refusals(unknown) == [FenceRefusal.LOCKS_OUT]
    assert "1 topic (clicks) has no ACL" in unknown.refused[0].why
    assert unknown.make == ()
    assert plan(bindings, everyone=EveryoneRule.NO).closed == ("clicks",)
    assert refusals(plan(bindings, everyone=EveryoneRule.YES)) == [FenceRefusal.EVERYBODY]
    opened = plan(bindings, "User:a", everyone=EveryoneRule.YES).make
    assert opened[0] == acl("clicks", ANYBODY, Operation.ALL)
    assert taken_back(opened)[-1] == opened[0]


def test_everybody_may_write_by_an_acl() -> None:
    everybody = [acl("*", ANYBODY)]
    assert refusals(plan(everybody)) == [FenceRefusal.EVERYBODY]
    assert {one.principal for one in plan(everybody, "User:a").make} == {"User:a"}


@pytest.mark.parametrize("name", [ANYBODY, "orders", "User:", ":a"])
def test_what_is_no_principal_is_refused(name: str) -> None:
    assert FenceRefusal.NOT_PRINCIPAL in refusals(plan([acl("*", "User:a")], name))


def test_raymirror_is_never_fenced() -> None:
    assert refusals(plan([acl("*", "User:a")], OWN)) == [FenceRefusal.OWN_NAMED]
    unknown = plan_fence(FenceFacts(topics=TOPICS, bindings=[acl("*", "User:a")], own=""))
    assert refusals(unknown) == [FenceRefusal.OWN_UNKNOWN]
    writer, bindings = "User:writer", [acl("*", "User:a"), acl("*", "User:writer")]
    other = plan_fence(FenceFacts(topics=TOPICS, bindings=bindings, own=OWN, also_own=[writer]))
    assert (other.principals, other.passing) == (("User:a",), (writer,))
    everybody = plan_fence(FenceFacts(topics=TOPICS, bindings=[acl("*", ANYBODY)], own=OWN, named=["User:a"]))
    bare = plan_fence(
        FenceFacts(topics=TOPICS, bindings=[], own=OWN, named=["User:a"], everyone=EveryoneRule.YES, also_own=[writer])
    )
    assert everybody.passing == (OWN,), "an application that logs in as it goes on"
    assert bare.passing == tuple(sorted((OWN, writer)))
    named = FenceFacts(topics=TOPICS, bindings=bindings, own=OWN, also_own=[writer], named=[writer])
    assert refusals(plan_fence(named)) == [FenceRefusal.OWN_NAMED]


def test_many_topics_are_counted() -> None:
    facts = FenceFacts(topics=[f"t{at}" for at in range(9)], bindings=[], own=OWN)
    assert "9 topics (t0, t1, t2, t3, t4 and 4 more)" in plan_fence(facts).refused[0].why


def test_other_resources_and_unknown_patterns_do_not_count() -> None:
    group = Binding(Resource.GROUP, "orders", Pattern.LITERAL, "User:a", "*", Operation.ALL, ALLOW)
    unknown = Binding(Resource.TOPIC, "orders", 9, "User:a", "*", Operation.ALL, ALLOW)
    assert not covers(group, "orders")
    assert not covers(unknown, "orders")
