"""Reads Java's own key stores, JKS and JCEKS (sun.security.provider.JavaKeyStore, com.sun.crypto.provider.JceKeyStore).

Layout: magic, version, count, entries, SHA-1. An entry is a tag (1: key, 2: certificate, 3: secret key), an alias, a
date, then the key and its chain, or the certificate. The SHA-1 at the end is that of the store's password (UTF-16), the
words "Mighty Aphrodite", and all bytes before. `pyjks`, the library for this, is not maintained, and needs two more
libraries for what are two hundred lines here.
"""

import hashlib
import hmac
import struct

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.padding import PKCS7

from engine.security.tls.der import parts
from engine.security.tls.store import BadStore, KeyEntry, Store

JKS_MAGIC, JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_KEY, _CERTIFICATE = 1, 2
_JKS_PROTECTOR = bytes.fromhex("2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1, sun.security.provider.KeyProtector."""
_JCEKS_PROTECTOR = bytes.fromhex("2b060104012a021301")
"""1.3.6.1.4.1.42.2.19.1, PBEWithMD5AndTripleDES."""
_MOST_ROUNDS = 5_000_000
"""JceKeyStore's own limit."""
_CUT = "is not a whole JKS store: it ends early"
_SEQUENCE = 0x30


def is_java_store(data: bytes) -> bool:
    """Whether these bytes begin like a JKS or JCEKS store."""
    return data[:4] in (JKS_MAGIC, JCEKS_MAGIC)


def read_java_store(data: bytes, password: str | None, key_password: str | None) -> Store:
    """Return the content. Raises BadStore.

    Without `password` nothing checks that the store is whole, as in Java. Without `key_password` keys are left out.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        found = hashlib.sha1(_wide(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise BadStore("the password does not open it, or it was changed", of_password=True)
    try:
        return _read(_Reader(body), key_password)
    except (struct.error, IndexError, ValueError):
        raise BadStore(_CUT) from None


def _read(reader: "_Reader", key_password: str | None) -> Store:
    reader.take(4)
    version, count = reader.number(">I"), reader.number(">I")
    if version not in (1, 2):
        raise BadStore(f"is a Java store of version {version}, but Java writes versions 1 and 2")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag, alias, _date = reader.number(">I"), reader.text(), reader.number(">Q")
        if tag == _KEY:
            locked = reader.block()
            chain = tuple(reader.certificate(version) for _ in range(reader.number(">I")))
            trusted += chain[:1]
            if key_password is not None:
                keys.append(KeyEntry(alias, _unlocked(locked, key_password), chain))
        elif tag == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        else:
            right = "give a store with keys and certificates only: keytool -delete -alias NAME"
            raise BadStore("holds a secret key, which no TLS connection needs", right)
    return Store(tuple(keys), tuple(trusted))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise BadStore(_CUT)
        self._at += size
        return found

    def number(self, layout: str) -> int:
        (found,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(found)

    def text(self) -> str:
        return self.take(self.number(">H")).decode("utf-8")

    def block(self) -> bytes:
        return self.take(self.number(">I"))

    def certificate(self, version: int) -> bytes:
        kind = self.text() if version == 2 else "X.509"
        found = self.block()
        if kind != "X.509":
            raise BadStore("holds a certificate that is not X.509")
        return found


# --- private keys ---------------------------------------------------------------------------------------------------


def _unlocked(locked: bytes, password: str) -> bytes:
    """Decrypt a key: an EncryptedPrivateKeyInfo (RFC 5208) with one of two algorithms of Sun's. Raises BadStore."""
    ((tag, content), *_) = parts(locked)
    if tag != _SEQUENCE:
        raise BadStore(_CUT)
    algorithm, octets = parts(content)
    names = parts(algorithm[1])
    protector = names[0][1]
    if protector == _JKS_PROTECTOR:
        return _jks_key(octets[1], password)
    if protector == _JCEKS_PROTECTOR:
        return _jceks_key(names[1][1], octets[1], password)
    raise BadStore("protects its key in a way that Java's own stores do not use")


def _jks_key(protected: bytes, password: str) -> bytes:
    """Undo KeyProtector: a salt, the key XOR a stream of SHA-1 blocks, and the SHA-1 of password and key."""
    salt, locked, check = protected[:20], protected[20:-20], protected[-20:]
    secret, block, stream = _wide(password), salt, bytearray()
    while len(stream) < len(locked):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(locked, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise BadStore("the password does not open its key", of_password=True)
    return key


def _jceks_key(parameters: bytes, locked: bytes, password: str) -> bytes:
    """Undo PBEWithMD5AndTripleDES (com.sun.crypto.provider.PBES1Core): each half of the salt makes half of the key."""
    (_, salt), (_, rounds) = parts(parameters)
    count = int.from_bytes(rounds, "big")
    if len(salt) != 8 or not 0 < count <= _MOST_ROUNDS:
        raise BadStore("protects its key in a way that Java's own stores do not use")
    first, second = salt[:4], salt[4:]
    if first == second:  # Sun's code swaps bytes of equal halves, in its own odd way
        first = bytes((first[3], first[0], first[1], first[3]))
    secret = password.encode("latin-1", "replace")
    derived = b"".join(_rounds(half, secret, count) for half in (first, second))
    cipher = Cipher(TripleDES(derived[:24]), modes.CBC(derived[24:])).decryptor()
    unpadder = PKCS7(64).unpadder()
    try:
        padded = cipher.update(locked) + cipher.finalize()
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError:
        raise BadStore("the password does not open its key", of_password=True) from None


def _rounds(half: bytes, secret: bytes, count: int) -> bytes:
    for _ in range(count):
        half = hashlib.md5(half + secret, usedforsecurity=False).digest()
    return half


def _wide(password: str) -> bytes:
    return password.encode("utf-16-be")
