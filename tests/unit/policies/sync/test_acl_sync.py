"""ACLs of copies: every operation, permission and pattern type, as in MM2 and with raymirror's options."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.groups import GroupSelection
from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import AclRules, Binding, Operation, Pattern, Permission, Resource, plan_acls

FLOW = FlowName("A", "B")
COPIED = ("orders", "orders.eu")


def rules(
    *, identity: bool = False, topics: str = "orders.*", prefixed: bool = False, groups: GroupSelection | None = None
) -> AclRules:
    naming = IdentityNaming("A") if identity else DefaultNaming()
    return AclRules(selection=TopicSelection(FLOW, naming, [topics]), prefixed=prefixed, groups=groups)


def binding(
    name: str = "orders",
    operation: int = Operation.READ,
    *,
    permission: int = Permission.ALLOW,
    pattern: int = Pattern.LITERAL,
    resource: int = Resource.TOPIC,
    principal: str = "User:ann",
) -> Binding:
    return Binding(int(resource), name, int(pattern), principal, "*", int(operation), int(permission))


def added(source: Binding, by: AclRules) -> Binding | None:
    changes = plan_acls([source], set(), by, COPIED).changes
    return changes[0].binding if changes else None


def why_left(source: Binding, by: AclRules) -> str:
    (left,) = plan_acls([source], set(), by, COPIED).left
    assert left.binding == source
    return left.why


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("permission", list(Permission))
def test_every_operation_of_a_copied_topic(operation: Operation, permission: Permission) -> None:
    source = binding(operation=operation, permission=permission)
    if permission is Permission.ALLOW and operation is Operation.WRITE:
        assert added(source, rules()) is None
        assert "only the mirror writes" in why_left(source, rules())
        return
    reads = permission is Permission.ALLOW and operation is Operation.ALL
    wanted = source._replace(name="A.orders", operation=int(Operation.READ if reads else operation))
    assert added(source, rules()) == wanted


def test_topics_that_are_not_copied_and_other_resources_are_nothing() -> None:
    for other in (binding("clicks"), binding("orders", resource=4), binding("g", resource=Resource.GROUP)):
        found = plan_acls([other], set(), rules(), COPIED)
        assert (found.changes, found.left) == ((), ())


def test_prefixes_need_the_option_and_a_copied_topic() -> None:
    source = binding("ord", pattern=Pattern.PREFIXED)
    assert "raymirror.sync.acls.prefixed" in why_left(source, rules())
    assert added(source, rules(prefixed=True)) == source._replace(name="A.ord")
    elsewhere = binding("click", pattern=Pattern.PREFIXED)
    assert plan_acls([elsewhere], set(), rules(prefixed=True), COPIED).changes == ()


@given(st.lists(st.text("ab.\U0001f600", max_size=4)), st.text("ab.\U0001f600", max_size=3))
def test_a_prefix_counts_if_a_copied_topic_has_it(topics: list[str], prefix: str) -> None:
    source = binding(prefix, pattern=Pattern.PREFIXED)
    found = plan_acls([source], set(), rules(prefixed=True), topics).changes
    assert len(found) == any(topic.startswith(prefix) for topic in topics)


class Looked(list[str]):
    """Topics that count how often somebody goes through them."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_however_many_prefixes_there_are_the_topics_are_gone_through_once() -> None:
    topics = Looked(f"orders-{number}" for number in range(10))
    prefixes = [binding(f"orders-{number}", pattern=Pattern.PREFIXED) for number in range(5, 15)]
    assert len(plan_acls(prefixes, set(), rules(prefixed=True), topics).changes) == 5
    assert topics.times <= 1


def test_the_wildcard_is_all_topics_or_all_copies() -> None:
    source = binding("*")
    assert "prefix on the target" in why_left(source, rules())
    assert added(source, rules(prefixed=True)) == source._replace(name="A.", pattern=int(Pattern.PREFIXED))
    assert added(source, rules(identity=True, topics=".*")) == source
    assert "does not match everything" in why_left(source, rules(identity=True))


def test_a_pattern_of_tomorrow_is_told() -> None:
    assert "pattern type 9" in why_left(binding(pattern=9), rules())


def test_groups_need_the_option_and_keep_their_names() -> None:
    by = rules(groups=GroupSelection(["bill.*", r"\*"]))
    for name in ("billing", "*"):
        source = binding(name, Operation.ALL, resource=Resource.GROUP)
        assert added(source, by) == source
    assert added(binding("other", resource=Resource.GROUP), by) is None
    prefix = binding("bi", resource=Resource.GROUP, pattern=Pattern.PREFIXED)
    assert "raymirror.sync.acls.prefixed" in why_left(prefix, by)
    assert added(prefix, rules(prefixed=True, groups=GroupSelection())) == prefix


def test_denials_come_first_and_what_is_there_is_not_added() -> None:
    allow, deny = binding(), binding(permission=Permission.DENY, principal="User:zoe")
    twin = binding(operation=Operation.ALL)  # becomes the same READ as `allow`
    found = plan_acls([allow, twin, deny], set(), rules(), COPIED)
    assert [change.binding.permission for change in found.changes] == [Permission.DENY, Permission.ALLOW]
    there = {change.binding for change in found.changes}
    assert plan_acls([allow, twin, deny], there, rules(), COPIED).changes == ()


def test_a_binding_in_words() -> None:
    text = str(binding("ord", Operation.DESCRIBE_CONFIGS, pattern=Pattern.PREFIXED, permission=Permission.DENY))
    assert text == "DENY DESCRIBE_CONFIGS on topic prefix 'ord' for User:ann from *"
    assert str(binding(operation=99)) == "ALLOW 99 on topic 'orders' for User:ann from *"
