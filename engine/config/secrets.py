"""Turns the security settings of a cluster into handshake options; knows which keys may hold a secret.

Only this module resolves secrets of clusters; `engine/config/http/http_secrets.py` resolves those of the HTTP server.
"""

import logging
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from engine.base.errors import ConfigError
from engine.base.redaction import remember_secret
from engine.config.file.providers import Where, has_placeholder, is_placeholder, with_stand_ins
from engine.config.security import Credentials, HandshakeOptions
from engine.config.settings import ClusterConfig
from engine.security.mechanisms import MECHANISM, check_mechanism, login_entry, mechanism_of, read_login
from engine.security.oauth.keys import ASSERTION_KEYS, CLIENT_SECRET, HANDLER, HANDLER_KEYS, PASSPHRASE, TUNING_KEYS
from engine.security.sasl.jaas import JAAS, parse_jaas
from engine.security.sasl.kerberos import SERVICE_NAME
from engine.security.sasl.login import Login
from engine.security.settings import BadSecurity, SecuritySettings, shown
from engine.security.tls.keys import (
    ENABLED,
    HOSTNAME_CHECK,
    KEY_PASSWORD,
    KEYSTORE,
    PROTOCOL,
    SUITES,
    TRUSTSTORE,
    Stamp,
    check_tls,
    has_key,
    stamp,
)

SECURITY_PROTOCOL = "security.protocol"
SECURITY_KEYS = (
    SECURITY_PROTOCOL,
    MECHANISM,
    JAAS,
    SERVICE_NAME,
    HANDLER,
    *HANDLER_KEYS,
    *ASSERTION_KEYS,
    *TUNING_KEYS,
    TRUSTSTORE.location,
    TRUSTSTORE.type,
    TRUSTSTORE.password,
    *TRUSTSTORE.inline,
    KEYSTORE.location,
    KEYSTORE.type,
    KEYSTORE.password,
    *KEYSTORE.inline,
    KEY_PASSWORD,
    HOSTNAME_CHECK,
    PROTOCOL,
    ENABLED,
    SUITES,
)
"""Client settings that are honoured, at top level or under a cluster's alias."""
SECRET_KEYS = (
    JAAS,
    CLIENT_SECRET,
    PASSPHRASE,
    KEY_PASSWORD,
    KEYSTORE.password,
    KEYSTORE.inline[0],
    TRUSTSTORE.password,
)
"""The security keys whose values may contain a clear-text secret."""
_HTTP_SECRET = re.compile(r"raymirror\.http\..*\.(?:password|token)")

_log = logging.getLogger("raymirror")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STAND_IN = "placeholder"
_WITH_LOGIN = re.compile(r"://[^/?#\s]*@")
"""What is in an address that has a user name before its host."""
_SWALLOWED = re.compile(rf"(?:{'|'.join(map(re.escape, SECRET_KEYS))})\s*[=:]|(?:password|secret)\s*=", re.IGNORECASE)
_SECRET_OPTION = ("password", "secret", "token", "assertion", "awsroleaccesskeyid", KEYSTORE.inline[0])
NO_SECRET = ("uri", "location", "type", "jwt", "claim", "seconds", "username", "auth", "path")
"""Parts of the names of a login module's options whose values are secrets, and ends of those that are none."""


def is_secret(key: str, value: str = "") -> bool:
    """Whether a key, with or without an alias, or a value may have a clear-text password.

    A value may: an address with a login, and a line with a backslash at its end, which swallowed the next setting.
    """
    named = any(key == secret or key.endswith(f".{secret}") for secret in SECRET_KEYS)
    named = named or _HTTP_SECRET.fullmatch(key) is not None
    return named or _WITH_LOGIN.search(value) is not None or _SWALLOWED.search(value) is not None


def check_security(cluster: ClusterConfig) -> None:
    """Refuse settings that cannot work. Raises ConfigError. Placeholders are resolved and checked only when used."""
    hidden = {key for key, value in cluster.security.items() if _is_hidden(key, value)}
    known = {key: value for key, value in cluster.security.items() if key not in hidden}
    if JAAS in known:
        known[JAAS] = with_stand_ins(known[JAAS], _STAND_IN)
    with errors_of(cluster):
        _check(SecuritySettings(known, hidden))


def _is_hidden(key: str, value: str) -> bool:
    return is_placeholder(value) if key == JAAS else has_placeholder(value)


def _check(settings: SecuritySettings) -> None:
    protocol = _protocol(settings)
    if SECURITY_PROTOCOL not in settings.hidden and protocol not in _PROTOCOLS:
        right = f"use {', '.join(_PROTOCOLS)}"
        raise BadSecurity(SECURITY_PROTOCOL, f"{shown(protocol)!r} is not a security protocol", right)
    if protocol.startswith("SASL"):
        check_mechanism(settings)
        if JAAS not in settings.hidden:
            login_entry(settings)
    if protocol.endswith("SSL"):
        check_tls(settings)


def literal_secrets(cluster: ClusterConfig) -> tuple[tuple[str, int], ...]:
    """Return (key, line) of each setting that contains a clear-text password instead of a placeholder."""
    found = [key for key in SECRET_KEYS if key in cluster.security and _has_literal(key, cluster.security[key])]
    return tuple(cluster.places.get(key, (key, 0)) for key in found)


def _has_literal(key: str, value: str) -> bool:
    if key != JAAS:
        return not has_placeholder(value)
    try:
        entries = parse_jaas(with_stand_ins(value, _STAND_IN))
    except BadSecurity:
        return not is_placeholder(value)
    options = [option for entry in entries for option in entry.options.items()]
    return any(_is_secret_option(name) and _STAND_IN not in text for name, text in options)


def _is_secret_option(name: str) -> bool:
    return any(part in name.lower() for part in _SECRET_OPTION) and not name.lower().endswith(NO_SECRET)


def resolved_settings(cluster: ClusterConfig) -> SecuritySettings:
    """Return the security settings with secrets in clear text, for a client; never show them. Raises ConfigError."""
    settings = SecuritySettings(_resolved(cluster))
    with errors_of(cluster):
        _check(settings)
    return settings


def _resolved(cluster: ClusterConfig) -> dict[str, str]:
    found = {key: cluster.providers.resolve(value, _where(cluster, key)) for key, value in cluster.security.items()}
    for key in found.keys() & set(SECRET_KEYS):
        for secret in _secrets_of(key, found[key]):
            remember_secret(secret)
    return found


def _secrets_of(key: str, value: str) -> tuple[str, ...]:
    """Return the secrets in the value of a key; all of it, if it cannot be read."""
    if key != JAAS:
        return (value,)
    try:
        entries = parse_jaas(value)
    except BadSecurity:
        return (value,)
    options = [option for entry in entries for option in entry.options.items()]
    return tuple(text for name, text in options if _is_secret_option(name))


def known_user(cluster: ClusterConfig) -> str:
    """Return raymirror's user name at a cluster's brokers; empty if only the brokers know it. Raises ConfigError."""
    settings = resolved_settings(cluster)
    protocol = _protocol(settings)
    with errors_of(cluster):
        return _user(protocol, read_login(settings) if protocol.startswith("SASL") else None)


def _user(protocol: str, login: Login | None) -> str:
    if login is not None:
        return login.user
    return "" if protocol == "SSL" else "ANONYMOUS"


def handshake_options(cluster: ClusterConfig, client_id: str) -> HandshakeOptions:
    """Return how to connect to a cluster. Raises ConfigError if a setting cannot be resolved or is not supported."""
    present = PresentCredentials(cluster)
    settings = present.settings
    protocol = _protocol(settings)
    return HandshakeOptions(
        user=_user(protocol, present.now().login),
        client_id=client_id,
        security_protocol=protocol,
        has_certificate=has_key(settings),
        sasl_mechanism=mechanism_of(settings) if protocol.startswith("SASL") else None,
        credentials=present.now,
    )


class PresentCredentials:
    """The credentials of a cluster as its secrets and stores are now: each handshake uses the newest ones.

    So a password or certificate that is rotated on disk is used without a restart. While a new one cannot be used, a
    file that is half written for example, the last good one stays, and a line of the log says why.
    """

    def __init__(self, cluster: ClusterConfig) -> None:
        self._cluster = cluster
        self._lock = Lock()
        self._resolved = _resolved(cluster)
        self._stamp: Stamp = ()
        self._told = ""
        """The error of the present files that was logged."""
        self.settings = SecuritySettings({})
        self._present = Credentials()
        self._take(self._resolved)

    def now(self) -> Credentials:
        """Return the credentials for a handshake; it reads files, so call it in a thread."""
        with self._lock:
            try:
                resolved = _resolved(self._cluster)
                if resolved != self._resolved or stamp(self.settings) != self._stamp:
                    self._take(resolved)
                self._told = ""
            except ConfigError as error:
                self._tell(str(error))
            return self._present

    def _tell(self, error: str) -> None:
        """Log why new credentials cannot be used, once: without that, nobody would know before the old ones expire."""
        if error != self._told:
            self._told = error
            _log.warning("%s; the last good login and stores of cluster %r stay in use", error, self._cluster.alias)

    def _take(self, resolved: dict[str, str]) -> None:
        settings = SecuritySettings(resolved)
        before: Stamp = stamp(settings)  # taken first: a store that changes while it is read is read again
        with errors_of(self._cluster):
            _check(settings)
            protocol = _protocol(settings)
            present = Credentials(
                ssl_context=_context(settings) if protocol.endswith("SSL") else None,
                login=read_login(settings) if protocol.startswith("SASL") else None,
            )
        self._resolved, self._stamp, self.settings, self._present = resolved, before, settings, present


def _context(settings: SecuritySettings) -> ssl.SSLContext:
    from engine.security.tls.context import tls_context  # its libraries are large, and many clusters have no TLS

    return tls_context(settings)


@contextmanager
def errors_of(cluster: ClusterConfig) -> Iterator[None]:
    """Turn BadSecurity into a ConfigError with the line of the setting."""
    try:
        yield
    except BadSecurity as bad:
        raise _where(cluster, bad.key).error(bad.wrong, bad.right) from None


def _protocol(settings: SecuritySettings) -> str:
    return settings.text(SECURITY_PROTOCOL, "PLAINTEXT").upper()


def _where(cluster: ClusterConfig, key: str) -> Where:
    name, line = cluster.places.get(key, (f"{cluster.alias}.{key}", 0))
    return Where(cluster.file, line, name)
