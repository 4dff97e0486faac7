"""Turns a cluster's settings into arguments of aiokafka's own consumer, as far as that can log in."""

from typing import Any

from engine.config.secrets import errors_of, handshake_options, resolved_settings
from engine.config.settings import ClusterConfig
from engine.security.mechanisms import login_entry, mechanism_of

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def stock_connection(cluster: ClusterConfig, client_id: str) -> dict[str, Any] | str:
    """Return keyword arguments for a consumer; a sentence if it cannot log in there.

    The arguments have the password: never show them. It reads secrets and stores, so call it in a thread. Raises
    ConfigError.
    """
    options = handshake_options(cluster, client_id)
    found: dict[str, Any] = {
        "bootstrap_servers": [f"{host}:{port}" for host, port in cluster.bootstrap],
        "client_id": client_id,
        "security_protocol": options.security_protocol,
    }
    if options.has_tls:
        found["ssl_context"] = options.credentials().ssl_context
    if not options.has_login:
        return found
    settings = resolved_settings(cluster)
    with errors_of(cluster):
        mechanism, entry = mechanism_of(settings), login_entry(settings)
    if mechanism not in _MECHANISMS or entry.options.get("tokenauth", "").lower() == "true":
        return f"a stock consumer cannot log in with {mechanism} here"
    return {
        **found,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": entry.options["username"],
        "sasl_plain_password": entry.options["password"],
    }
