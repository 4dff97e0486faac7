"""Reads and writes PEM: blocks of keys and certificates in one text, as Kafka's PEM stores have them (KIP-651)."""

import base64
import re
from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from engine.security.tls.der import first
from engine.security.tls.store import BadStore, KeyEntry

UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)
"""What `cryptography` raises for a key that it cannot read."""
CERTIFICATE = "CERTIFICATE"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_UNREADABLE_CERTIFICATE = "has a certificate that cannot be read"
_OLD_CERTIFICATE = f"X509 {CERTIFICATE}"
"""Its name in old files (RFC 7468, 5.1), which Kafka reads too."""
_TRUSTED = f"TRUSTED {CERTIFICATE}"
"""OpenSSL's own form: a certificate, and behind it for what it is trusted, which Kafka leaves unread."""
_KEY = "PRIVATE KEY"
_PKCS8 = (_KEY, f"ENCRYPTED {_KEY}")
_ALIAS = "kafka"
"""The name that Kafka gives the key of a PEM store."""


def is_pem(data: bytes) -> bool:
    """Whether a file has a PEM block."""
    return b"-----BEGIN " in data


def certificate_blocks(text: str) -> str:
    """Return the certificates of a PEM text, without what stands between them. Raises BadStore if there is none."""
    return "\n".join(_certificates(text))


def certificates(text: str) -> tuple[bytes, ...]:
    """Return the certificates of a PEM text in DER. Raises BadStore if there is none, or one cannot be read."""
    try:
        return tuple(
            x509.load_pem_x509_certificate(block.encode()).public_bytes(serialization.Encoding.DER)
            for block in _certificates(text)
        )
    except (ValueError, x509.InvalidVersion):
        raise BadStore(_UNREADABLE_CERTIFICATE) from None


def key_entry(key_text: str, chain_text: str, password: str | None) -> KeyEntry:
    """Return the private key of a text, decrypted, with the certificates of another or the same. Raises BadStore."""
    return KeyEntry(_ALIAS, _pkcs8(key_block(key_text), password), certificates(chain_text))


def key_block(text: str) -> str:
    """Return the private key of a PEM text. Raises BadStore unless there is exactly one."""
    found = [block for block in _BLOCK.finditer(text) if block[1].endswith(_KEY)]
    if len(found) != 1:
        raise BadStore(f"holds {len(found) or 'no'} {_KEY}{_others(text) if not found else 's'}", "give one")
    return found[0][0]


def is_pkcs8(block: str) -> bool:
    """Whether Java reads this block of a key: it reads no other form."""
    found = _BLOCK.match(block)
    return found is not None and found[1] in _PKCS8


def is_encrypted(block: str) -> bool:
    """Whether a block of a key has a password."""
    return "ENCRYPTED" in block


def key_text(entry: KeyEntry) -> str:
    """Return a key as PKCS#8 in PEM, not encrypted: for another client in memory, never for a file."""
    key = serialization.load_der_private_key(entry.key, None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def locked_text(entry: KeyEntry, password: bytes) -> bytes:
    """Return a key, encrypted with a password, and its certificates as PEM. Raises BadStore."""
    try:
        key = serialization.load_der_private_key(entry.key, None)
    except UNREADABLE:
        raise BadStore("has a private key that cannot be read") from None
    locked = serialization.BestAvailableEncryption(password)
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    return text + certificates_text(entry.chain).encode()


def certificates_text(found: Iterable[bytes]) -> str:
    """Return certificates in DER as PEM."""
    pem = serialization.Encoding.PEM
    return "".join(x509.load_der_x509_certificate(one).public_bytes(pem).decode() for one in found)


def _certificates(text: str) -> list[str]:
    blocks = [block for block in _BLOCK.finditer(text) if block[1] in (CERTIFICATE, _OLD_CERTIFICATE, _TRUSTED)]
    if not blocks:
        raise BadStore(f"holds no {CERTIFICATE}{_others(text)}", "add it")
    return [_plain(block[2]) if block[1] == _TRUSTED else block[0] for block in blocks]


def _plain(content: str) -> str:
    """Return the certificate of a trusted one, without what follows it. Raises BadStore."""
    try:
        return certificates_text([first(base64.b64decode(content))])
    except (ValueError, IndexError, x509.InvalidVersion):
        raise BadStore(_UNREADABLE_CERTIFICATE) from None


def _others(text: str) -> str:
    others = sorted({block[1] for block in _BLOCK.finditer(text)})
    return f", only {', '.join(others)}" if others else ""


def _pkcs8(block: str, password: str | None) -> bytes:
    locked = is_encrypted(block)
    if locked and password is None:
        raise BadStore("has an encrypted private key", "set ssl.key.password", of_password=True)
    try:
        key = serialization.load_pem_private_key(block.encode(), password.encode() if locked and password else None)
    except UNREADABLE:
        if locked:
            raise BadStore("the password does not open its key", of_password=True) from None
        raise BadStore("has a private key that cannot be read") from None
    der, pkcs8 = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
    return key.private_bytes(der, pkcs8, serialization.NoEncryption())
