"""Writes grants as calls of `kafka-acls`, Kafka's own tool: one line for each resource."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from policies.grants.planning import Grant, GrantNeed
from policies.grants.rights import ResourceKind, operation_name

_RESOURCE = {
    ResourceKind.TOPIC: "--topic",
    ResourceKind.GROUP: "--group",
    ResourceKind.TRANSACTIONAL_ID: "--transactional-id",
}
_TITLES = {
    GrantNeed.NEEDED: "needed",
    GrantNeed.OPTIONAL: "optional: the mirror runs without these, and says what it lacks",
    GrantNeed.COMMAND: "only for commands; they may run with a login of their own",
}
PRINCIPAL = "PRINCIPAL"
"""The shell variable in place of a principal that only the brokers know."""


def acl_words(grants: Sequence[Grant]) -> list[str]:
    """Return the words of `kafka-acls` for operations, resource and pattern; all grants are on one resource."""
    _, kind, name = grants[0].resource
    resource = ["--cluster"] if kind is ResourceKind.CLUSTER else [_RESOURCE[kind], name.name]
    operations = [word for grant in grants for word in ("--operation", operation_name(grant.operation))]
    return [*operations, *resource, *(["--resource-pattern-type", "prefixed"] if name.is_prefix else [])]


def by_resource(grants: Iterable[Grant]) -> list[list[Grant]]:
    """Return sorted grants, those of one need on one resource together."""
    return [list(some) for _, some in groupby(grants, key=lambda one: (one.need, one.resource))]


def commands(grants: Sequence[Grant], servers: Mapping[str, str], users: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a shell script. `servers`: addresses by cluster; `users`: raymirror's names, empty if unknown.

    What only an operator's commands need is a comment.
    """
    for cluster, here in groupby(grants, key=lambda one: one.cluster):
        user = users.get(cluster, "")
        yield f"# cluster {cluster}; admin.{cluster}.properties: the login of an administrator"
        if not user:
            yield f'# Only the brokers know who raymirror is: first set {PRINCIPAL}="User:CN=mirror" or the like.'
        login = shlex.join(["--bootstrap-server", servers[cluster], "--command-config", f"admin.{cluster}.properties"])
        who = shlex.quote(f"User:{user}") if user else f'"${PRINCIPAL}"'
        need = None
        for some in by_resource(here):
            if some[0].need is not need:
                need = some[0].need
                yield f"# {_TITLES[need]}"
            text = f"kafka-acls.sh {login} --add --allow-principal {who} {shlex.join(acl_words(some))}"
            yield f"# {text}" if need is GrantNeed.COMMAND else text
