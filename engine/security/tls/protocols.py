"""TLS versions and cipher suites by Java's names, as OpenSSL takes them."""

import re
import ssl

from engine.security.settings import BadSecurity, SecuritySettings, shown
from engine.security.tls.keys import ENABLED, PROTOCOL, SUITES

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_DEFAULT = ("TLSv1.2", "TLSv1.3")
_ANY_VERSION = ("TLS", "SSL", "DEFAULT")
"""Names of `ssl.protocol` that name no version; Java takes its names in any case, but not those of the other keys."""
_OLD = ("SSLv2Hello", "SSLv2", "SSLv3")
_TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_SUITE = re.compile(r"(?:TLS|SSL)_(?P<exchange>\w+)_WITH_(?P<cipher>\w+)")
_GONE = re.compile(r"SSL_\w+|TLS_(?:\w*(?:anon|KRB5|EXPORT)\w*|ECDH_\w+|\w+_WITH_(?:NULL|RC4|3?DES)\w*)")
"""Suites of Java that many an OpenSSL is built without."""
_SIGNALS = ("TLS_EMPTY_RENEGOTIATION_INFO_SCSV", "TLS_FALLBACK_SCSV")
_CIPHERS = {"CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305", "3DES_EDE_CBC_SHA": "DES-CBC3-SHA"}


def restrict(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    """Set versions and cipher suites of a context. Raises BadSecurity."""
    versions = _versions(settings)
    suites = settings.words(SUITES)
    old = [name for name in suites if name not in _TLS_1_3 and name not in _SIGNALS]
    if suites and not any(name in _TLS_1_3 for name in suites):
        versions = [version for version in versions if version != ssl.TLSVersion.TLSv1_3]
    if suites and not old:
        versions = [version for version in versions if version == ssl.TLSVersion.TLSv1_3]
    if not versions:
        right = "name suites of a version that ssl.enabled.protocols and ssl.protocol permit"
        raise BadSecurity(SUITES, "leaves no version of TLS", right)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if max(versions) == ssl.TLSVersion.TLSv1_3 and len(versions) > 1 and ssl.TLSVersion.TLSv1_2 not in versions:
        context.options |= ssl.OP_NO_TLSv1_2
    if old:
        _set_suites(context, old)


def _versions(settings: SecuritySettings) -> list[ssl.TLSVersion]:
    """Return the versions to offer; a version in `ssl.protocol` is the highest one, as Kafka documents it."""
    names = [name for name in settings.words(ENABLED) if name not in _OLD] or list(_DEFAULT)
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        raise BadSecurity(ENABLED, f"{shown(unknown[0])!r} is no version of TLS", f"use {', '.join(_VERSIONS)}")
    if settings.words(ENABLED) and not any(name in _VERSIONS for name in settings.words(ENABLED)):
        raise BadSecurity(ENABLED, "names only versions that OpenSSL has no more", f"use {', '.join(_DEFAULT)}")
    said = settings.text(PROTOCOL, _DEFAULT[-1])
    if said.upper() in _ANY_VERSION:
        return [_VERSIONS[name] for name in names]
    most = next((name for name in _VERSIONS if name.upper() == said.upper()), None)
    if most is None:
        raise BadSecurity(PROTOCOL, f"{shown(said)!r} is no version of TLS", f"use TLS, {', '.join(_VERSIONS)}")
    found = [_VERSIONS[name] for name in names if _VERSIONS[name] <= _VERSIONS[most]]
    if not found:
        raise BadSecurity(ENABLED, f"has no version up to ssl.protocol = {most}", "let the two agree")
    return found


def _set_suites(context: ssl.SSLContext, names: list[str]) -> None:
    """Set the suites below TLS 1.3; those of 1.3 cannot be chosen one by one in Python, and all three are good.

    A name that nobody knows is refused, as by Java. What Java knows and OpenSSL has no more is left out.
    """
    found = {name: openssl_name(name) for name in names}
    known = [one for one in found.values() if one and _is_known(one)]
    unknown = [name for name, one in found.items() if one not in known and not _GONE.fullmatch(name)]
    if unknown or not known:
        bad = next(iter(unknown or names))
        named = f": {bad}" if bad == shown(bad) else ""
        wrong = f"names a suite that neither Java nor OpenSSL has{named}" if unknown else "names no suite of OpenSSL"
        raise BadSecurity(SUITES, wrong, "use names such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    context.set_ciphers(":".join(known))


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite (`openssl ciphers -stdname`); empty if it is no suite of TLS 1.2 or older."""
    found = _SUITE.fullmatch(name)
    if found is None:
        return ""
    exchange, cipher = found["exchange"].replace("_", "-"), found["cipher"]
    cipher = _CIPHERS.get(cipher) or re.sub(r"^AES_(\d+)_CBC_", r"AES\1-", cipher).replace("AES_", "AES", 1)
    cipher = cipher.replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"


def _is_known(name: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True
