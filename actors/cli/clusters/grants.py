"""Shows the ACLs that a configuration needs: as a table, as `kafka-acls` commands, or as JSON. It asks no cluster."""

import argparse
from collections.abc import Sequence

from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.flags import say_facts
from actors.observability.colours import stdout_console
from engine.checks.grants import needed_grants, users_of
from engine.config.config import load_config
from policies.grants.commands import by_resource, commands
from policies.grants.planning import Grant, GrantNeed
from policies.grants.rights import operation_name

_NEEDS = {GrantNeed.NEEDED: "needed", GrantNeed.OPTIONAL: "optional", GrantNeed.COMMAND: "for commands"}


def show_grants(args: argparse.Namespace) -> int:
    """Print the grants of the configuration as a table, or as commands. Raises ConfigError."""
    config = load_config(args.config)
    grants, users = needed_grants(config), users_of(config)
    if args.json:
        facts = [grant_facts(one, users[one.cluster]) for one in grants]
        say_facts(args, config=str(args.config), grants=facts)
    elif args.grant_commands:
        servers = {
            alias: ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in one.bootstrap)
            for alias, one in config.clusters.items()
        }
        print("\n".join(commands(grants, servers, users)))
    else:
        stdout_console().print(_table(grants, users))
    return exits.OK


def grant_facts(grant: Grant, user: str) -> dict[str, object]:
    """Return one grant as a row of JSON, in Kafka's words; an empty principal: only the brokers know it."""
    return {
        "cluster": grant.cluster,
        "principal": f"User:{user}" if user else "",
        "operation": operation_name(grant.operation),
        "resource": grant.kind.value,
        "name": grant.name.name,
        "pattern": "prefixed" if grant.name.is_prefix else "literal",
        "need": _NEEDS[grant.need],
        "features": [one.value for one in grant.features],
        "without": list(grant.without),
    }


def _table(grants: Sequence[Grant], users: dict[str, str]) -> Table:
    table = Table("cluster", "principal", "operations", "resource", "name", "need", "features")
    for some in by_resource(grants):
        first = some[0]
        user = users[first.cluster]
        features = dict.fromkeys(feature.value for one in some for feature in one.features)
        table.add_row(
            first.cluster,
            f"User:{user}" if user else "?",
            ", ".join(operation_name(one.operation) for one in some),
            first.kind.value,
            f"{first.name.name}*" if first.name.is_prefix else first.name.name,
            _NEEDS[first.need],
            ", ".join(features),
        )
    return table
