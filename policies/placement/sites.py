"""Rules for sites: the copiers of a flow run near its target, near its source, or on any node of the Ray cluster.

A site is a place that nodes and Kafka clusters share: a region, a zone, a data centre. A Ray node that is in a site has
the site's custom resource. A copier that must run in a site takes a small share of that resource, so Ray itself places
it, and an autoscaler starts a node of a type that has it.

Rejected: Ray's node labels with a `label_selector`. In Ray 2.60 the autoscaler of `ray up` is version 1 by default,
whose code knows no label selectors: it may start nodes of the wrong type. And `ray start --labels` is hidden.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Any

SITE_RESOURCE = "raymirror_site_"
"""A Ray node of site X has the resource `raymirror_site_X`; the amount does not matter, 1 is usual."""
SITE_SHARE = 0.001
"""What one copier takes of it: Ray keeps resources in steps of 0.0001."""
SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,62}")
"""Names that need no quotes in YAML, in a shell and in Ray's JSON."""

HERE = (
    "has no effect here: without --address or RAY_ADDRESS, raymirror run starts a Ray of its own, and all copiers run"
    " on this machine"
)
"""Why a mirror with its own Ray ignores sites: the operator chose its place by the machine."""


class CopierPlace(enum.StrEnum):
    """Which cluster of a flow its copiers run near. The first is the default: without sites nothing changes."""

    ANY = "any"
    TARGET = "target"
    SOURCE = "source"


def site_resources(*sites: str) -> dict[str, float]:
    """Return the resources of a node that is in these sites; an empty name is no site."""
    return {SITE_RESOURCE + site: 1.0 for site in sites if site}


def site_share(site: str) -> dict[str, float]:
    """Return the resources that a copier takes to run in a site; none if the name is empty."""
    return {SITE_RESOURCE + site: SITE_SHARE} if site else {}


def copier_needs(site: str) -> str:
    """Say what a Ray node must have so that a copier can start there."""
    return "one free CPU in the Ray cluster" if not site else f"one free CPU on a Ray node of site {site}"


def is_site_missing(site: str, nodes: Iterable[Mapping[str, float]]) -> bool:
    """Whether no living node can ever hold a copier of a site. `nodes`: the total resources of each living node."""
    return bool(site) and not any(_is_in(site, node) and node.get("CPU", 0) >= 1 for node in nodes)


def missing_sites(sites: Iterable[str], nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the sites that have no node, from the answer of `ray.nodes()`."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    return [site for site in sites if is_site_missing(site, alive)]


def missing_site(site: str) -> str:
    """Say that a site has no node, and what to do."""
    return (
        f"no living Ray node with a CPU is in site {site} (resource {SITE_RESOURCE}{site}): start one with"
        f" RAYMIRROR_SITE={site} and deploy/ray/start-node.sh, or change raymirror.copiers.near"
    )


def _is_in(site: str, node: Mapping[str, float]) -> bool:
    return node.get(SITE_RESOURCE + site, 0) >= SITE_SHARE
