"""Which grants follow from features and names; what one ACL covers of another."""

from hypothesis import given
from hypothesis import strategies as st

from policies.grants.feature_use import BY_COMMAND, GrantFeature
from policies.grants.planning import Grant, GrantFacts, GrantNeed, acl_names, grants_of
from policies.grants.resources import ResourceGroup
from policies.grants.rights import EVERY, Grantee, ResourceKind, ResourceName, grant_text, operation_name
from policies.model import FlowName
from policies.sync.acl_sync import Operation

FLOW = FlowName("A", "B")
NAMES = {group: (ResourceName(group.name.lower()),) for group in ResourceGroup}


def facts(*features: GrantFeature, syncs: str = "A", **names: tuple[ResourceName, ...]) -> GrantFacts:
    """Describe a flow with some features; `names` by the name of their group."""
    found = {**NAMES, **{ResourceGroup[group]: some for group, some in names.items()}}
    return GrantFacts(flow=FLOW, syncs_cluster=syncs, features=frozenset(features), names=found)


def told(grants: tuple[Grant, ...], cluster: str = "") -> set[tuple[str, str]]:
    """Return (operation, name) of the grants, of one cluster or of all."""
    return {(operation_name(one.operation), one.name.name) for one in grants if cluster in ("", one.cluster)}


def test_patterns_become_the_narrowest_names_that_acls_have() -> None:
    plain = [("orders", ResourceName("orders")), (r"a\.b", ResourceName("a.b")), ("a.b", ResourceName("a.b"))]
    begins = [("orders.*", "orders"), (r"orders\..*", "orders."), ("a-b_c.*", "a-b_c"), ("a.b.*", "a.b")]
    for pattern, name in plain:
        assert acl_names([pattern]) == (name,)
    for pattern, prefix in begins:
        assert acl_names([pattern]) == (ResourceName(prefix, is_prefix=True),)
    for pattern in (".*", "a|b", "(?i)orders", "orders[0-9]+", ".*orders", "a.+", "a.*b", "a*.*"):
        assert acl_names([pattern]) == (ResourceName(EVERY),)
    assert acl_names(["a", "a", "b"]) == (ResourceName("a"), ResourceName("b"))


def test_a_name_covers_itself_a_prefix_what_begins_so_and_a_star_everything() -> None:
    name, longer, prefix, every = ResourceName("ab"), ResourceName("abc"), ResourceName("ab", True), ResourceName("*")
    assert every.covers(name)
    assert every.covers(prefix)
    assert prefix.covers(name)
    assert prefix.covers(ResourceName("abc", True))
    assert not prefix.covers(every)
    assert not name.covers(longer)
    assert not ResourceName("abc", True).covers(prefix)


def test_what_others_imply_is_left_out() -> None:
    found = grants_of([facts(GrantFeature.COPYING, GrantFeature.CONFIGS)])
    assert told(found, "A") == {("Read", "topics"), ("DescribeConfigs", "topics")}
    copies = {one for one, name in told(found, "B") if name == "copies"}
    assert copies == {"Read", "Write", "Create", "Alter", "AlterConfigs"}


def test_an_optional_grant_does_not_stand_for_a_needed_one() -> None:
    """ACL sync needs Describe on the cluster; so the check of disks, which would like to have it, has it too."""
    found = grants_of([facts(GrantFeature.ACLS, GrantFeature.DISKS)])
    cluster = {(one.cluster, one.operation): one for one in found if one.kind is ResourceKind.CLUSTER}
    assert set(cluster) == {("A", Operation.DESCRIBE), ("B", Operation.ALTER)}
    assert all(one.need is GrantNeed.NEEDED for one in cluster.values())
    assert GrantFeature.DISKS in cluster["B", Operation.ALTER].features


def test_a_read_only_source() -> None:
    """All features of a mirror at once, offset syncs on the target: nothing is written on the source."""
    features = set(GrantFeature) - BY_COMMAND
    found = grants_of([facts(*features, syncs="B")])
    assert {one.operation for one in found if one.cluster == "A"} == {
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    }
    assert all(
        one.kind is not ResourceKind.GROUP or one.operation is Operation.DESCRIBE for one in found if one.cluster == "A"
    )
    on_source = grants_of([facts(GrantFeature.SYNCS, syncs="A")])
    assert told(on_source, "A") == {("Write", "syncs"), ("Create", "syncs"), ("Read", "syncs")}


def test_what_only_a_command_needs_is_kept_apart() -> None:
    found = grants_of([facts(GrantFeature.CHECKPOINTS, GrantFeature.FAILBACK)])
    (commits,) = [one for one in found if one.kind is ResourceKind.GROUP and one.operation is Operation.READ]
    assert (commits.cluster, commits.need) == ("A", GrantNeed.COMMAND)
    (describes,) = [one for one in found if one.kind is ResourceKind.GROUP and one.operation is Operation.DESCRIBE]
    assert describes.need is GrantNeed.NEEDED


def test_two_flows_of_one_cluster_are_joined() -> None:
    back = GrantFacts(
        flow=FlowName("B", "A"), syncs_cluster="B", features=frozenset({GrantFeature.COPYING}), names=NAMES
    )
    found = grants_of([facts(GrantFeature.COPYING), back])
    assert len({(one.resource, one.operation) for one in found}) == len(found)
    assert told(found, "A") >= {("Read", "topics"), ("Write", "copies")}
    assert told(found, "B") >= {("Read", "topics"), ("Write", "copies")}


names = st.builds(ResourceName, st.sampled_from(["a", "ab", "abc", "b", "*"]), st.booleans()).filter(
    lambda one: not (one.is_prefix and one.name == EVERY)
)


@given(st.sets(st.sampled_from(GrantFeature), min_size=1), st.lists(names, min_size=1, max_size=4))
def test_nothing_is_lost_when_grants_are_made_fewer(features: set[GrantFeature], topics: list[ResourceName]) -> None:
    """Every grant of every feature alone is included in some grant of all features together."""
    some = tuple(topics)
    together = grants_of([facts(*features, TOPICS=some, COPIES=some)])
    for feature in features:
        for one in grants_of([facts(feature, TOPICS=some, COPIES=some)]):
            assert any(wide.includes(one) for wide in together)
    for one in together:
        assert not any(wide.includes(one) for wide in together if wide is not one)


def test_a_missing_right_is_said_with_principal_operation_resource_and_cluster() -> None:
    assert grant_text(Operation.DESCRIBE_CONFIGS, ResourceKind.CLUSTER, "", "B", "mirror") == (
        "grant DescribeConfigs on cluster 'B' to User:mirror"
    )
    assert Grantee("B").needs_on_topic(Operation.WRITE, "t") == (
        "grant Write on topic t on cluster 'B' to raymirror's user"
    )
    ids = Grantee().needs(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, "raymirror.x")
    assert ids == "grant Write on transactional id raymirror.x to raymirror's user"
