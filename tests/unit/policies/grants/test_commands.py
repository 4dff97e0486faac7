"""Grants as calls of `kafka-acls`: one for each resource, quoted for a shell."""

import shlex

from policies.grants.commands import acl_words, by_resource, commands
from policies.grants.planning import Grant, GrantNeed
from policies.grants.rights import CLUSTER_NAME, ResourceKind, ResourceName
from policies.sync.acl_sync import Operation


def grant(
    operation: Operation,
    name: str = "t",
    kind: ResourceKind = ResourceKind.TOPIC,
    need: GrantNeed = GrantNeed.NEEDED,
    *,
    prefix: bool = False,
    cluster: str = "B",
) -> Grant:
    resource = ResourceName(name, is_prefix=prefix)
    return Grant(cluster=cluster, need=need, kind=kind, name=resource, operation=operation, features=())


def test_operations_on_one_resource_share_a_line() -> None:
    both = [grant(Operation.READ), grant(Operation.ALTER_CONFIGS)]
    assert by_resource([*both, grant(Operation.READ, "u")]) == [both, [grant(Operation.READ, "u")]]
    assert acl_words(both) == ["--operation", "Read", "--operation", "AlterConfigs", "--topic", "t"]


def test_each_type_of_resource_has_its_option() -> None:
    assert acl_words([grant(Operation.ALTER, CLUSTER_NAME, ResourceKind.CLUSTER)])[2:] == ["--cluster"]
    assert acl_words([grant(Operation.READ, "g", ResourceKind.GROUP)])[2:] == ["--group", "g"]
    ids = grant(Operation.WRITE, "raymirror.A->B.", ResourceKind.TRANSACTIONAL_ID, prefix=True)
    assert acl_words([ids])[2:] == ["--transactional-id", "raymirror.A->B.", "--resource-pattern-type", "prefixed"]


def test_a_script_has_a_part_for_each_cluster_and_need_and_comments_what_commands_need() -> None:
    found = [
        grant(Operation.READ, cluster="A"),
        grant(Operation.WRITE, "it's"),
        grant(Operation.DESCRIBE, CLUSTER_NAME, ResourceKind.CLUSTER, GrantNeed.OPTIONAL),
        grant(Operation.READ, "g", ResourceKind.GROUP, GrantNeed.COMMAND),
    ]
    lines = list(commands(found, {"A": "a:1", "B": "b:1,b:2"}, {"A": "", "B": "mirror"}))
    assert [line.split(";")[0] for line in lines if line.startswith("# cluster")] == ["# cluster A", "# cluster B"]
    runs = [line for line in lines if line.startswith("kafka-acls.sh ")]
    assert len(runs) == 3
    assert '--allow-principal "$PRINCIPAL" --operation Read --topic t' in runs[0]
    assert any("PRINCIPAL=" in line for line in lines)
    assert shlex.split(runs[1])[-2:] == ["--topic", "it's"]
    assert "--bootstrap-server b:1,b:2 --command-config admin.B.properties" in runs[1]
    assert "User:mirror" in runs[2]
    assert lines[-1].startswith("# kafka-acls.sh ")
    assert lines[-1].endswith("--operation Read --group g")
