"""Reads the settings of the HTTP server: port, address, users with their roles, TLS.

A server without users accepts everybody who reaches its port. So it is allowed at a loopback address only.
"""

import ipaddress
import re

from engine.config.property_reader import PropertyReader
from engine.config.settings import NODE_ADDRESS, HttpConfig, HttpUser, TelemetryConfig
from policies.roles import ROLES, Role

PREFIX = "raymirror.http."
USERS, BIND, PORT, NODES = f"{PREFIX}users", f"{PREFIX}bind", f"{PREFIX}port", f"{PREFIX}nodes"
CERTIFICATE, KEY = f"{PREFIX}tls.certificate", f"{PREFIX}tls.key"
KEY_PASSWORD, CLIENT_CA = f"{PREFIX}tls.key.password", f"{PREFIX}tls.client.ca"
_DEFAULTS = HttpConfig()
_NODES = HEAD, ALL = "head", "all"
_NAME = re.compile(r"[A-Za-z0-9_@-]+")


def read_http(reader: PropertyReader, telemetry: TelemetryConfig, *, accepted: bool = False) -> HttpConfig:
    """Return the settings of the HTTP server. Raises ConfigError.

    In a file that was `accepted` before and edited since, a user's password may be gone: then nobody can log in as that
    user, which is no reason to stop an actor that copies.
    """
    users = tuple(_user(reader, name, accepted=accepted) for name in reader.list(USERS))
    certificate = reader.text(CERTIFICATE, "")
    config = HttpConfig(
        port=reader.number(PORT, _DEFAULTS.port, 0, 65_535),
        bind=_address(reader),
        on_all_nodes=reader.choice(NODES, _NODES) == ALL,
        users=users,
        certificate=certificate,
        key=reader.text(KEY, certificate),
        key_password=reader.unresolved(KEY_PASSWORD) or "",
        client_ca=reader.text(CLIENT_CA, ""),
        providers=reader.providers,
        file=reader.file,
        lines={key: reader.where(key).line for key in reader.names() if key.startswith(PREFIX)},
    )
    _check(reader, config, telemetry)
    return config


def user_key(name: str, setting: str) -> str:
    """Return the key of a user's `role`, `password` or `token`."""
    return f"{PREFIX}user.{name}.{setting}"


def secrets_of(config: HttpConfig) -> dict[str, str]:
    """Return the keys that may hold a password or token in clear text, with their unresolved values."""
    users = {
        user_key(user.name, setting): value
        for user in config.users
        for setting, value in (("password", user.password), ("token", user.token))
    }
    return {key: value for key, value in (users | {KEY_PASSWORD: config.key_password}).items() if value}


def _user(reader: PropertyReader, name: str, *, accepted: bool) -> HttpUser:
    if not _NAME.fullmatch(name):
        raise reader.error(USERS, f"{name!r} is not allowed", "name users with letters, digits, '_', '@' or '-'")
    role = Role(reader.choice(user_key(name, "role"), ROLES))
    password, token = (reader.unresolved(user_key(name, setting)) for setting in ("password", "token"))
    if password is None and token is None and not accepted:
        right = f"set it, e.g. to ${{file:PATH:KEY}}, or set {user_key(name, 'token')}"
        raise reader.error(user_key(name, "password"), "missing", right)
    for setting, value in (("password", password), ("token", token)):
        if value is not None and not value.strip() and not accepted:
            raise reader.error(user_key(name, setting), "empty", "write a value, e.g. ${file:PATH:KEY}")
    return HttpUser(name=name, role=role, password=(password or "").strip(), token=(token or "").strip())


def _address(reader: PropertyReader) -> str:
    text = reader.text(BIND, _DEFAULTS.bind)
    if text == NODE_ADDRESS:
        return text
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise reader.error(
            BIND, f"{text!r} is not an IP address", "write e.g. 127.0.0.1, 0.0.0.0, :: or node"
        ) from None


def _is_on_each_node(bind: str) -> bool:
    return bind == NODE_ADDRESS or ipaddress.ip_address(bind).is_unspecified


def _check(reader: PropertyReader, config: HttpConfig, telemetry: TelemetryConfig) -> None:
    """Refuse settings that contradict each other or are not safe. Raises ConfigError."""
    for key, value in ((KEY, reader.has(KEY)), (KEY_PASSWORD, config.key_password), (CLIENT_CA, config.client_ca)):
        if value and not config.certificate:
            raise reader.error(key, f"set without {CERTIFICATE}", f"set {CERTIFICATE} to a PEM file, or remove it")
    if not config.port:
        return
    if config.port == telemetry.port:
        raise reader.error(PORT, f"{config.port} is raymirror.metrics.port already", "give it another port")
    if config.on_all_nodes and not _is_on_each_node(config.bind):
        raise reader.error(
            BIND,
            f"{config.bind} is the address of one node, and {NODES} = {ALL} opens the port on all of them",
            f"write node (each node's own address), 0.0.0.0 or ::, or set {NODES} = {HEAD}",
        ).dependent(NODES)
    if config.bind != NODE_ADDRESS and ipaddress.ip_address(config.bind).is_loopback:
        return
    if not config.users:
        raise reader.error(
            BIND,
            f"{config.bind} lets other machines in, and {USERS} names nobody: everybody could stop the mirror",
            f"set {USERS} with a password or token for each, or bind 127.0.0.1",
        ).dependent(USERS)
    if not config.certificate:
        reader.warn(BIND, f"passwords and tokens pass the network in clear text; set {CERTIFICATE}")
