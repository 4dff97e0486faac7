"""Configs that raymirror's policies copy, compared with MM2 4.3.1's connector: every difference is listed here."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import AclRules, Binding, Operation, Pattern, Permission, Resource, plan_acls
from policies.sync.topic_configs import (
    DEFAULT,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT,
    STATIC_BROKER,
    TOPIC_OVERRIDE,
    ConfigEntry,
    ConfigRules,
    wanted_configs,
)
from tests.contract.test_mm2_readers import hidden

pytestmark = pytest.mark.contract
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": TOPIC_OVERRIDE,
    "DYNAMIC_BROKER_CONFIG": DYNAMIC_BROKER,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": DYNAMIC_DEFAULT,
    "STATIC_BROKER_CONFIG": STATIC_BROKER,
    "DEFAULT_CONFIG": DEFAULT,
}


def connector(java: Any, *, topics: str = ".*", identity: bool = False, defaults_from: str = "target") -> Any:
    """Make MM2's source connector for A->B, without clients."""
    mirror = java.org.apache.kafka.connect.mirror
    policy = mirror.IdentityReplicationPolicy() if identity else mirror.DefaultReplicationPolicy()
    wanted, filtered = mirror.DefaultTopicFilter(), mirror.DefaultConfigPropertyFilter()
    policy.configure({"source.cluster.alias": "A"})
    wanted.configure({"topics": topics})
    filtered.configure({"use.defaults.from": defaults_from})
    mm2 = java.java.lang.Class.forName("org.apache.kafka.connect.mirror.MirrorSourceConnector")
    made = next(one for one in mm2.getDeclaredConstructors() if one.getParameterCount() == 5)
    made.setAccessible(True)
    values = java.java.util.ArrayList()
    for value in (mirror.SourceAndTarget("A", "B"), policy, wanted, filtered, True):
        values.append(value)
    return made.newInstance(values.toArray())


def mm2_sets(java: Any, mm2: Any, entries: dict[str, tuple[str, bool, bool]]) -> set[str]:
    """Return the names that MM2 would set on the copy (the others it deletes or leaves alone)."""
    admin = java.org.apache.kafka.clients.admin
    given = java.java.util.ArrayList()
    for name, (source, read_only, sensitive) in entries.items():
        origin = admin.ConfigEntry.ConfigSource.valueOf(source)
        kind = admin.ConfigEntry.ConfigType.STRING
        given.append(admin.ConfigEntry(name, "1", origin, sensitive, read_only, java.java.util.ArrayList(), kind, None))
    kept = java.java.util.ArrayList(hidden(java, mm2, "targetConfig", admin.Config(given), True).entries()).toArray()
    return {
        entry.name()
        for entry in kept
        if not entry.isDefault() or hidden(java, mm2, "shouldReplicateSourceDefault", entry.name())
    }


@pytest.mark.parametrize("defaults_from", ["target", "source"])
def test_configs_are_carried_over_as_by_mm2_but_for_those_of_one_broker(java: Any, defaults_from: str) -> None:
    mm2 = connector(java, defaults_from=defaults_from)
    rules = ConfigRules(source_defaults=defaults_from == "source")
    for source, read_only, sensitive in product(SOURCES, (False, True), (False, True)):
        entries = dict.fromkeys(("retention.ms", "min.insync.replicas", "x"), (source, read_only, sensitive))
        ours = wanted_configs(
            {name: ConfigEntry("1", SOURCES[source], read_only, sensitive) for name in entries}, rules
        )
        theirs = mm2_sets(java, mm2, entries)
        if SOURCES[source] == DYNAMIC_BROKER and not (read_only or sensitive):
            assert (theirs, ours) == ({"retention.ms", "x"}, {})
        else:
            assert set(ours) == theirs, (source, read_only, sensitive)


def bindings() -> Iterator[Binding]:
    """Give every operation, allowed and denied, on names that are copied, are not, and are all."""
    kinds = product(("orders", "clicks", "*"), Pattern, Operation, Permission)
    for name, pattern, operation, permission in kinds:
        yield Binding(int(Resource.TOPIC), name, int(pattern), "User:ann", "h", int(operation), int(permission))


def mm2_acl(java: Any, mm2: Any, one: Binding) -> Binding | None:
    """Return what MM2 makes of a binding: literal ones of copied topics only, then its own filter (`syncTopicAcls`)."""
    acl, resource = java.org.apache.kafka.common.acl, java.org.apache.kafka.common.resource
    made = acl.AclBinding(
        resource.ResourcePattern(
            resource.ResourceType.TOPIC, one.name, resource.PatternType.valueOf(Pattern(one.pattern).name)
        ),
        acl.AccessControlEntry(
            one.principal,
            one.host,
            acl.AclOperation.valueOf(Operation(one.operation).name),
            acl.AclPermissionType.valueOf(Permission(one.permission).name),
        ),
    )
    copied = one.pattern == Pattern.LITERAL and hidden(java, mm2, "shouldReplicateTopic", one.name)
    if not copied or not hidden(java, mm2, "shouldReplicateAcl", made):
        return None
    found = hidden(java, mm2, "targetAclBinding", made)
    pattern, entry = found.pattern(), found.entry()
    return one._replace(
        name=pattern.name(),
        pattern=int(Pattern[pattern.patternType().name()]),
        operation=int(Operation[entry.operation().name()]),
        permission=int(Permission[entry.permissionType().name()]),
    )


@pytest.mark.parametrize(("topics", "identity"), [("orders.*", False), (".*", False), ("orders.*", True), (".*", True)])
def test_acls_are_mm2s_but_for_the_wildcard_of_prefixed_copies(java: Any, topics: str, identity: bool) -> None:
    mm2 = connector(java, topics=topics, identity=identity)
    naming = IdentityNaming("A") if identity else DefaultNaming()
    rules = AclRules(selection=TopicSelection(FlowName("A", "B"), naming, [topics]))
    useless = 0
    for one in bindings():
        changes = plan_acls([one], set(), rules, ["orders", "clicks"]).changes
        ours, theirs = (changes[0].binding if changes else None), mm2_acl(java, mm2, one)
        if theirs is not None and theirs.name == "A.*":  # no topic can have that name
            assert ours is None
            useless += 1
        else:
            assert ours == theirs, one
    writes = 1
    assert useless == (len(Operation) * len(Permission) - writes if topics == ".*" and not identity else 0)
