"""Reads where the copiers of a flow run, and in which site each cluster is."""

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from policies.model import FlowName
from policies.placement.sites import SITE_NAME, CopierPlace

NEAR_KEY = "raymirror.copiers.near"
SITE_KEY = "raymirror.site"


def read_site(reader: PropertyReader, alias: str) -> str:
    """Return the site of a cluster; by default its alias. Raises ConfigError."""
    own = f"{alias}.{SITE_KEY}"
    key = reader.first_key(own, SITE_KEY)
    site = alias if key is None else reader.text(key, "")
    if key is not None and not SITE_NAME.fullmatch(site):
        right = "begin with a letter or digit, then at most 62 letters, digits, '.', '_' or '-', e.g. eu-west-1"
        raise reader.error(key, f"{site!r} is not the name of a site", right)
    return site


def read_copiers_site(reader: PropertyReader, keys: FlowKeys, name: FlowName) -> str:
    """Return the site whose Ray nodes run a flow's copiers; empty if any node may. Raises ConfigError."""
    key = keys.flow(NEAR_KEY)
    near = CopierPlace(reader.choice(key, tuple(one.value for one in CopierPlace)))
    if near is CopierPlace.ANY:
        return ""
    alias = name.target if near is CopierPlace.TARGET else name.source
    site = read_site(reader, alias)
    if not SITE_NAME.fullmatch(site):  # only an alias can be such a name here
        wrong = f"cluster {alias!r} has no site, and its alias is not the name of one"
        raise reader.error(key, wrong, f"set {alias}.{SITE_KEY}, e.g. {alias}.{SITE_KEY} = eu-west-1").dependent(
            SITE_KEY
        )
    return site
