"""Reads how each client of a flow logs in: as its cluster says, or by keys of its own (`policies/keys/places.py`).

Many files of MM2 say the login of a cluster three times, once for each kind of client. If all three agree, it counts as
the cluster's, for whoever asks the cluster for no flow.
"""

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.config.secrets import SECURITY_KEYS, check_security
from engine.config.settings import ClusterConfig
from engine.config.tuning.client_login import ClientLogin
from policies.keys.places import LOGINS, agree, client_keys, login_places
from policies.model import FlowName


def cluster_key(reader: PropertyReader, alias: str, name: str) -> str | None:
    """Return the key that sets a security setting for a whole cluster."""
    return reader.first_key(f"{alias}.{name}", name) or _of_all_clients(reader, alias, name)


def _of_all_clients(reader: PropertyReader, alias: str, name: str) -> str | None:
    keys = client_keys(alias, name)
    agreed = agree(reader.entry(key).value if reader.has(key) else None for key in keys)
    return reader.first_key(*keys) if agreed else None


def read_login(reader: PropertyReader, keys: FlowKeys, client: str) -> ClientLogin | None:
    """Return the login of one client (LOGINS); None if it is that of its cluster. Raises ConfigError."""
    alias = keys.name.source if LOGINS[client].alias == "A" else keys.name.target
    ours: dict[str, str] = {}
    clusters: dict[str, str] = {}
    for name in SECURITY_KEYS:
        above, below = login_places(client, name, keys.name)
        of_cluster = cluster_key(reader, alias, name)
        key = reader.first_key(*above) or of_cluster or reader.first_key(*below)
        if of_cluster is not None:
            clusters[name] = of_cluster
        if key is not None:
            ours[name] = key
    login = ClientLogin(_values(reader, ours), ours)
    if login.security == _values(reader, clusters):
        return None
    _check(reader, alias, login)
    return login


def _values(reader: PropertyReader, keys: dict[str, str]) -> dict[str, str]:
    return {name: (reader.unresolved(key) or "").strip() for name, key in keys.items()}


def _check(reader: PropertyReader, alias: str, login: ClientLogin) -> None:
    places = {name: (key, reader.where(key).line) for name, key in login.keys.items()}
    check_security(ClusterConfig(alias, (), login.security, places, reader.file, reader.providers))


def count_as_read(reader: PropertyReader, off: FlowName) -> None:
    """Count the login keys of a flow that is switched off as read: raymirror does not check them."""
    for client in LOGINS:
        for name in SECURITY_KEYS:
            above, below = login_places(client, name, off)
            reader.first_key(*(key for key in (*above, *below) if key.startswith(f"{off}.")))
