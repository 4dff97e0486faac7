"""Plans the grants of a configuration: the least rights with which all of its features work.

An ACL names one resource, a prefix, or everything. So a pattern such as `orders|clicks.*` in `topics` needs everything:
write a list of names and prefixes (`orders, clicks.*`) for narrower grants.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec

from policies.grants.feature_use import BY_COMMAND, FeatureUse, GrantFeature
from policies.grants.features import USES
from policies.grants.requests import BY_NAME
from policies.grants.resources import GrantSide, ResourceGroup
from policies.grants.rights import EVERY, IMPLIED, ResourceKind, ResourceName
from policies.model import FlowName
from policies.patterns import literal
from policies.sync.acl_sync import Operation

_PREFIX = re.compile(r"((?:[\w\-]|\\[.\-]|\.(?![*+?{]))+)\.\*")
"""A pattern that means a prefix; a bare dot counts as a dot, as in `patterns.literal`."""


class GrantNeed(IntEnum):
    """How much a mirror needs a grant."""

    NEEDED = 0
    OPTIONAL = 1
    COMMAND = 2
    """Only a command that an operator starts needs it."""


class GrantFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says of one flow (or of one pair of clusters with heartbeats only)."""

    flow: FlowName
    syncs_cluster: str
    features: frozenset[GrantFeature]
    names: Mapping[ResourceGroup, tuple[ResourceName, ...]]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One ACL that allows an operation; `without`: what happens without it, one text for each cause."""

    cluster: str
    need: GrantNeed
    kind: ResourceKind
    name: ResourceName
    operation: Operation
    features: tuple[GrantFeature, ...]
    without: tuple[str, ...] = ()

    @property
    def resource(self) -> tuple[str, ResourceKind, ResourceName]:
        """The resource that it is about."""
        return self.cluster, self.kind, self.name

    def includes(self, other: "Grant") -> bool:
        """Whether the other one adds nothing to this one."""
        same = self.cluster == other.cluster and self.kind is other.kind and self.need <= other.need
        implied = self.operation is other.operation or self.operation in IMPLIED.get(other.operation, ())
        return same and implied and self.name.covers(other.name)


def acl_names(patterns: Iterable[str]) -> tuple[ResourceName, ...]:
    r"""Return names that cover a list of patterns, as narrow as ACLs can be: each a literal, a prefix, or everything.

    >>> acl_names(["orders", "clicks\\..*", "a|b"])
    (ResourceName('orders'), ResourceName('clicks.', is_prefix=True), ResourceName('*'))
    """
    return tuple(dict.fromkeys(map(_acl_name, patterns)))


def _acl_name(pattern: str) -> ResourceName:
    name = literal(pattern)
    if name is not None:
        return ResourceName(name)
    found = _PREFIX.fullmatch(pattern)
    return ResourceName(EVERY) if found is None else ResourceName(re.sub(r"\\(.)", r"\1", found[1]), is_prefix=True)


def grants_of(facts: Iterable[GrantFacts]) -> tuple[Grant, ...]:
    """Return the grants of all flows together, without those that others imply, sorted by cluster and need."""
    merged: dict[tuple[object, ...], Grant] = {}
    for one in facts:
        for grant in _grants(one):
            key = *grant.resource, grant.operation
            merged[key] = _joined(merged[key], grant) if key in merged else grant
    return tuple(sorted(_least(list(merged.values())), key=_order))


def _grants(facts: GrantFacts) -> Iterable[Grant]:
    for use in USES:
        if use.feature not in facts.features:
            continue
        kind = use.group.kind
        for operation in dict.fromkeys(one for name in use.requests for one in BY_NAME[name].on(kind)):
            for name in facts.names.get(use.group, ()):
                yield Grant(
                    cluster=_cluster(facts, use.side),
                    need=need_of(use),
                    kind=kind,
                    name=name,
                    operation=operation,
                    features=(use.feature,),
                    without=(use.without,),
                )


def need_of(use: FeatureUse) -> GrantNeed:
    """Return how much the feature of a row needs its requests."""
    if use.feature in BY_COMMAND:
        return GrantNeed.COMMAND
    return GrantNeed.NEEDED if use.needed else GrantNeed.OPTIONAL


def _cluster(facts: GrantFacts, side: GrantSide) -> str:
    if side is GrantSide.SYNCS:
        return facts.syncs_cluster
    return facts.flow.source if side is GrantSide.SOURCE else facts.flow.target


def _joined(one: Grant, other: Grant) -> Grant:
    return msgspec.structs.replace(
        one,
        need=min(one.need, other.need),
        features=tuple(dict.fromkeys((*one.features, *other.features))),
        without=tuple(dict.fromkeys((*one.without, *other.without))),
    )


def _least(grants: Sequence[Grant]) -> list[Grant]:
    """Drop what others include; the first of these then names the features of what was dropped, too."""
    kept = {id(one): one for one in grants if not _wider(one, grants)}
    for grant in grants:
        if id(grant) not in kept:
            first = min((one for one in _wider(grant, grants) if id(one) in kept), key=_order)
            features = (*kept[id(first)].features, *grant.features)
            kept[id(first)] = msgspec.structs.replace(kept[id(first)], features=tuple(dict.fromkeys(features)))
    return list(kept.values())


def _wider(grant: Grant, grants: Sequence[Grant]) -> list[Grant]:
    return [one for one in grants if one is not grant and one.includes(grant)]


def _order(grant: Grant) -> tuple[object, ...]:
    kinds = list(ResourceKind)
    return grant.cluster, grant.need, kinds.index(grant.kind), grant.name, grant.operation
