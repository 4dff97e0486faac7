"""Names of the `ssl.*` keys, and what is wrong with them before any store is read; it imports little."""

import os
from typing import NamedTuple

from engine.security.settings import BadSecurity, SecuritySettings, shown

PROTOCOL, ENABLED, SUITES = "ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites"
HOSTNAME_CHECK = "ssl.endpoint.identification.algorithm"
_HTTPS = "HTTPS"
Stamp = tuple[tuple[int, int, int], ...]
"""Time, size and inode of each file of the settings; zeros for a file that is not there."""
PEM, _DEFAULT_TYPE = "PEM", "JKS"
TYPES = ("JKS", "JCEKS", "PKCS12", PEM)
_PEM_ENDINGS = (".pem", ".crt", ".cer", ".cert")
_CONVERT = (
    "convert it: keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12, and set"
)


class StoreKeys(NamedTuple):
    """The keys of one of the two stores."""

    location: str
    type: str
    password: str
    inline: tuple[str, ...]
    """The keys of PEM text in the configuration itself, the one with the private key first."""


KEYSTORE = StoreKeys(
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
)
TRUSTSTORE = StoreKeys(
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", ("ssl.truststore.certificates",)
)
KEY_PASSWORD = "ssl.key.password"


def has_key(settings: SecuritySettings) -> bool:
    """Whether the settings have a client certificate."""
    return KEYSTORE.location in settings or KEYSTORE.inline[0] in settings


def place(settings: SecuritySettings, keys: StoreKeys) -> str:
    """Return the key that says where a store is: that of its file, or of PEM text in the configuration."""
    return keys.inline[0] if keys.inline[0] in settings else keys.location


def _check_stores(settings: SecuritySettings) -> None:
    for keys in (KEYSTORE, TRUSTSTORE):
        _check_type(settings, keys)
        if keys.location in settings and keys.inline[0] in settings:
            raise BadSecurity(keys.inline[0], f"set together with {keys.location}", "keep one of them")
    key, chain = KEYSTORE.inline
    if (key in settings) != (chain in settings):
        there, lacks = (key, chain) if key in settings else (chain, key)
        raise BadSecurity(there, f"set, but {lacks} is missing", "give the private key and its certificates")
    needs_password = KEYSTORE.location in settings and not _may_be_pem(settings, KEYSTORE)
    if needs_password and KEYSTORE.password not in settings:
        right = f"set {KEYSTORE.password}; a PEM file needs none, but {KEYSTORE.type} = {PEM}"
        raise BadSecurity(KEYSTORE.location, f"a store of type {store_type(settings, KEYSTORE)} has a password", right)


def _check_type(settings: SecuritySettings, keys: StoreKeys) -> None:
    kind, location = store_type(settings, keys), settings.known(keys.location)
    if keys.location not in settings or keys.type in settings.hidden:
        return
    if kind not in TYPES:
        raise BadSecurity(keys.type, f"{shown(kind)} stores cannot be read", f"{_CONVERT} {keys.type} = PKCS12")
    if keys.type not in settings and location is not None and location.lower().endswith(_PEM_ENDINGS):
        wrong = f"the name is that of a PEM file, but without {keys.type} the type is {_DEFAULT_TYPE}"
        raise BadSecurity(keys.location, wrong, f"set {keys.type}={PEM}")


def store_type(settings: SecuritySettings, keys: StoreKeys) -> str:
    """Return the type of a store in upper case, Kafka's default if none is set."""
    return settings.text(keys.type, _DEFAULT_TYPE).upper()


def _may_be_pem(settings: SecuritySettings, keys: StoreKeys) -> bool:
    return keys.type in settings.hidden or store_type(settings, keys) == PEM


def check_tls(settings: SecuritySettings) -> None:
    """Refuse TLS settings that cannot work, as far as the settings alone show it. Raises BadSecurity."""
    _check_stores(settings)
    algorithm = settings.known(HOSTNAME_CHECK)
    if algorithm and algorithm.upper() != _HTTPS:
        right = "use https, or leave the value empty to accept any name"
        raise BadSecurity(HOSTNAME_CHECK, "is no way to check a broker's name", right)


def stamp(settings: SecuritySettings) -> Stamp:
    """Return what shows whether the files of the stores have changed."""
    paths = [settings.known(keys.location) for keys in (KEYSTORE, TRUSTSTORE)]
    return tuple(_stamp(path) for path in paths if path)


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
