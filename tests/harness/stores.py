"""Keys and certificates of tests, and stores of them in every format; no tool and no process is needed."""

import datetime
import hashlib
import ipaddress
import struct
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2090, 1, 1, tzinfo=datetime.UTC)
_SALT = bytes(range(20))


class OwnKey(NamedTuple):
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    certificate: x509.Certificate

    def der(self) -> bytes:
        """Return the key as PKCS#8, not encrypted."""
        return self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    def certificate_der(self) -> bytes:
        """Return the certificate in DER."""
        return self.certificate.public_bytes(Encoding.DER)

    def certificate_pem(self) -> bytes:
        """Return the certificate in PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    def pem(self, password: str | None = None) -> bytes:
        """Return the key as PKCS#8 in PEM."""
        locked = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)

    def traditional_pem(self) -> bytes:
        """Return the key in OpenSSL's old form."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    def pkcs12(self, password: str, *others: "OwnKey") -> bytes:
        """Return a PKCS#12 store of the key, its certificate, and certificates of others."""
        return pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.certificate, [one.certificate for one in others], _locked(password)
        )


def _locked(password: str) -> BestAvailableEncryption:
    return BestAvailableEncryption(password.encode())


def make_key(
    name: str, signer: OwnKey | None = None, *, address: str = "127.0.0.1", rsa_bits: int | None = None
) -> OwnKey:
    """Make a key and its certificate for an address, signed by another key or by itself; each may sign others."""
    key = ec.generate_private_key(ec.SECP256R1()) if rsa_bits is None else rsa.generate_private_key(65537, rsa_bits)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), _address(address)]), critical=False)
    )
    return OwnKey(key, builder.sign(signer.key if signer else key, hashes.SHA256()))


def _address(text: str) -> x509.IPAddress:
    return x509.IPAddress(ipaddress.ip_address(text))


def trust_pkcs12(password: str, *keys: OwnKey) -> bytes:
    """Return a PKCS#12 store of certificates only."""
    found = [pkcs12.PKCS12Certificate(one.certificate, f"c{n}".encode()) for n, one in enumerate(keys)]
    return pkcs12.serialize_java_truststore(found, _locked(password))


def jks(password: str, *entries: "tuple[str, OwnKey] | tuple[str, OwnKey, str]", version: int = 2) -> bytes:
    """Return a JKS store: (alias, key) is a trusted certificate, (alias, key, its password) a private key."""
    body = struct.pack(">4sII", b"\xfe\xed\xfe\xed", version, len(entries))
    for alias, own, *locked in entries:
        name = alias.encode()
        body += struct.pack(">IH", 1 if locked else 2, len(name)) + name + struct.pack(">Q", 0)
        if locked:
            key = _protected(own.der(), locked[0])
            body += struct.pack(">I", len(key)) + key + struct.pack(">I", 1)
        body += (struct.pack(">H", 5) + b"X.509" if version == 2 else b"") + _block(own.certificate_der())
    secret = password.encode("utf-16-be")
    return body + hashlib.sha1(secret + b"Mighty Aphrodite" + body).digest()


def _block(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _protected(key: bytes, password: str) -> bytes:
    """Encrypt a key as sun.security.provider.KeyProtector does."""
    secret, block, stream = password.encode("utf-16-be"), _SALT, b""
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    locked = bytes(one ^ other for one, other in zip(key, stream, strict=False))
    protected = _SALT + locked + hashlib.sha1(secret + key).digest()
    algorithm = _tlv(0x30, _tlv(0x06, bytes.fromhex("2b060104012a02110101")) + _tlv(0x05, b""))
    return _tlv(0x30, algorithm + _tlv(0x04, protected))


def _tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    width = (size.bit_length() + 7) // 8
    return bytes([tag, 0x80 | width]) + size.to_bytes(width, "big") + content
