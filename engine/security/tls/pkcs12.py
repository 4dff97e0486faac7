"""Reads PKCS#12 stores (RFC 7292), the default of Java's keytool since Java 9."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509 import Certificate

from engine.security.tls.store import BadStore, KeyEntry, Store

_SEQUENCE = b"\x30"


def is_pkcs12(data: bytes) -> bool:
    """Whether a file may be a PKCS#12 store: it begins with a DER sequence."""
    return data[:1] == _SEQUENCE


def read_pkcs12(data: bytes, password: str | None) -> Store:
    """Return the content: the key with its chain, and every certificate as trusted. Raises BadStore.

    Java trusts only certificates that keytool has marked as trusted; those that openssl writes have no such mark.
    """
    try:
        found = load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError):
        wrong = "cannot be opened without a password" if password is None else "the password does not open it"
        raise BadStore(f"{wrong}, or it is no whole PKCS#12 store", of_password=True) from None
    own = [found.cert.certificate] if found.cert is not None else []
    others = [one.certificate for one in found.additional_certs]
    if found.key is None:
        return Store((), tuple(map(_der, own + others)))
    key = found.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    name = found.cert.friendly_name if found.cert is not None and found.cert.friendly_name else b""
    chain = tuple(map(_der, _in_order(own, others)))
    return Store((KeyEntry(name.decode(errors="replace"), key, chain),), tuple(map(_der, own + others)))


def _in_order(own: list[Certificate], others: list[Certificate]) -> list[Certificate]:
    """Return the certificate of the key and then those that signed it; a store has them in any order."""
    chain = list(own)
    while chain and chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in others if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _der(certificate: Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)
