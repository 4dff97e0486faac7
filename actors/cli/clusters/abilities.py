"""Shows what the brokers of each cluster can do, and what raymirror does where they cannot."""

from collections.abc import Iterable, Sequence

import msgspec

from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table
from engine.checks.preflight import FlowPreview
from engine.kafka.capabilities.probe import Ability, ClusterAbilities
from engine.kafka.capabilities.table import Side
from policies.words import counted


def abilities_of(flows: Iterable[FlowPreview]) -> list[ClusterAbilities]:
    """Return each cluster once, with the abilities that its flows need: it may be a source, a target, or both."""
    found: dict[str, ClusterAbilities] = {}
    sides: dict[str, set[Side]] = {}
    for flow in flows:
        for side, cluster in zip(Side, flow.abilities, strict=False):
            found[cluster.cluster] = cluster
            sides.setdefault(cluster.cluster, set()).add(side)
    return [_of_sides(cluster, sides[alias]) for alias, cluster in found.items()]


def _of_sides(cluster: ClusterAbilities, sides: set[Side]) -> ClusterAbilities:
    used = tuple(one for one in cluster.abilities if sides & set(one.sides))
    return msgspec.structs.replace(cluster, abilities=used)


def show_abilities(clusters: Sequence[ClusterAbilities], *, whole: bool) -> None:
    """Print a line for each cluster, and a table of what is lacking; `whole`: of everything."""
    for cluster in clusters:
        lacking = sum(not one.has for one in cluster.abilities)
        can = (
            "can do all that raymirror asks"
            if not lacking
            else f"lacks {lacking} of {len(cluster.abilities)} abilities"
        )
        print(f"cluster {cluster.cluster!r}: {counted(len(cluster.brokers), 'broker')}: {can}")
    rows = [(cluster, one) for cluster in clusters for one in cluster.abilities if whole or not one.has]
    if not rows:
        return
    table = plain_table(("cluster", "ability", "for", "there"), rest=("without it", "instead"))
    for cluster, one in rows:
        table.add_row(cluster.cluster, one.name, _sides(one), _there(one), one.lost, one.instead)
    stdout_console().print(table)


def _sides(one: Ability) -> str:
    return "both" if len(one.sides) == len(Side) else one.sides[0].value


def _there(one: Ability) -> str:
    if one.has:
        return "yes"
    return f"not at {', '.join(map(str, one.brokers))}: {', '.join(one.requests)}"
