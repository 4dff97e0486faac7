"""PKCS#12 stores with several keys, as keytool makes them (RFC 7292); `cryptography` writes stores with one."""

import hashlib
import hmac

from tests.harness.stores import OwnKey

_PKCS = "2a864886f70d01"
_DATA, _KEY_BAG, _CERTIFICATE_BAG = f"{_PKCS}0701", f"{_PKCS}0c0a0101", f"{_PKCS}0c0a0103"
_NAME, _KEY_ID, _X509, _SHA_1 = f"{_PKCS}0914", f"{_PKCS}0915", f"{_PKCS}091601", "2b0e03021a"
_ROUNDS, _BLOCK = 1000, 64


def pkcs12_of(password: str, **keys: OwnKey) -> bytes:
    """Return a store of keys and their certificates by name; only its MAC depends on the password."""
    bags = b"".join(
        _bag(_KEY_BAG, own.der(), name) + _bag(_CERTIFICATE_BAG, _certificate(own), name) for name, own in keys.items()
    )
    content = _seq(_info(_seq(bags)))
    salt = b"salt" * 2
    mac = hmac.new(_mac_key(password, salt), content, "sha1").digest()
    proof = _seq(
        _seq(_seq(_oid(_SHA_1), b"\x05\x00"), _octets(mac)), _octets(salt), _value(2, _ROUNDS.to_bytes(2, "big"))
    )
    return _seq(b"\x02\x01\x03", _info(content), proof)


def _info(content: bytes) -> bytes:
    return _seq(_oid(_DATA), _value(0xA0, _octets(content)))


def _bag(kind: str, content: bytes, name: str) -> bytes:
    named = _attribute(_NAME, _value(0x1E, name.encode("utf-16-be"))) + _attribute(_KEY_ID, _octets(name.encode()))
    return _seq(_oid(kind), _value(0xA0, content), _value(0x31, named))


def _certificate(own: OwnKey) -> bytes:
    return _seq(_oid(_X509), _value(0xA0, _octets(own.certificate_der())))


def _attribute(kind: str, value: bytes) -> bytes:
    return _seq(_oid(kind), _value(0x31, value))


def _mac_key(password: str, salt: bytes) -> bytes:
    """Return the key of the MAC (RFC 7292, appendix B.2; one block of SHA-1 is enough)."""
    words = password.encode("utf-16-be") + b"\0\0"
    found = b"\x03" * _BLOCK + (salt * _BLOCK)[:_BLOCK] + (words * _BLOCK)[: -(-len(words) // _BLOCK) * _BLOCK]
    for _ in range(_ROUNDS):
        found = hashlib.sha1(found, usedforsecurity=False).digest()
    return found


def _seq(*values: bytes) -> bytes:
    return _value(0x30, b"".join(values))


def _octets(content: bytes) -> bytes:
    return _value(4, content)


def _oid(code: str) -> bytes:
    return _value(6, bytes.fromhex(code))


def _value(tag: int, content: bytes) -> bytes:
    size = len(content)
    width = (size.bit_length() + 7) // 8
    return (
        bytes([tag]) + (bytes([size]) if size < 128 else bytes([128 | width]) + size.to_bytes(width, "big")) + content
    )
