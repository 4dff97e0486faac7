"""Reads PKCS#12 stores (RFC 7292), the default of Java's keytool since Java 9."""

from collections.abc import Iterator

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509 import Certificate, InvalidVersion

from engine.security.tls.der import parts
from engine.security.tls.pem import UNREADABLE
from engine.security.tls.store import BadStore, KeyEntry, Store

_SEQUENCE = b"\x30"
_PKCS = bytes.fromhex("2a864886f70d01")
_PLAIN_DATA, _FRIENDLY_NAME = _PKCS + bytes.fromhex("0701"), _PKCS + bytes.fromhex("0914")
_KEY_BAGS = tuple(_PKCS + bytes.fromhex(f"0c0a01{kind}") for kind in ("01", "02"))
"""Object ids: data that is not encrypted as a whole, the name of an entry, a key and a key with a password."""


def is_pkcs12(data: bytes) -> bool:
    """Whether a file may be a PKCS#12 store: it begins with a DER sequence."""
    return data[:1] == _SEQUENCE


def read_pkcs12(data: bytes, password: str | None) -> Store:
    """Return the content: the key with its chain, and every certificate as trusted. Raises BadStore.

    Java trusts only certificates that keytool has marked as trusted; those that openssl writes have no such mark.
    """
    try:
        found = load_pkcs12(data, None if password is None else password.encode())
    except (*UNREADABLE, InvalidVersion):
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
    entry = KeyEntry(name.decode(errors="replace"), key, chain)
    return Store((entry, *_more_keys(data, entry.alias)), tuple(map(_der, own + others)))


def _more_keys(data: bytes, alias: str) -> list[KeyEntry]:
    """Return the other keys of a store by their names only: OpenSSL reads the first one and says nothing of others."""
    try:
        names = list(_key_names(data))
    except (ValueError, IndexError):  # in an encoding that OpenSSL reads, and not ours
        return []
    first = names.index(alias) if alias in names else 0
    return [KeyEntry(name, b"", ()) for at, name in enumerate(names) if at != first]


def _key_names(data: bytes) -> Iterator[str]:
    """Yield the names of the keys in the parts of a store that are not encrypted as a whole, where tools put keys."""
    ((_, store),) = parts(data)
    (_, authenticated), *_ = parts(store)[1:]
    for _, info in parts(_content(_content(_second(authenticated)))):
        (_, kind), *rest = parts(info)
        for _, bag in parts(_content(_content(rest[0][1]))) if kind == _PLAIN_DATA else []:
            (_, bag_kind), _value, *attributes = parts(bag)
            if bag_kind in _KEY_BAGS:
                yield _name(attributes[0][1] if attributes else b"")


def _name(attributes: bytes) -> str:
    for _, attribute in parts(attributes):
        (_, kind), (_, values) = parts(attribute)
        if kind == _FRIENDLY_NAME:
            return _content(values).decode("utf-16-be", "replace")
    return "without a name"


def _content(data: bytes) -> bytes:
    """Return the content of the first value."""
    return parts(data)[0][1]


def _second(data: bytes) -> bytes:
    """Return the content of the second value."""
    return parts(data)[1][1]


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
