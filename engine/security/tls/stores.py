"""Reads the stores that `ssl.keystore.*` and `ssl.truststore.*` name, as Kafka's DefaultSslEngineFactory does.

The content of a file decides between JKS, JCEKS and PKCS#12, as in Java, where each of the types reads the others.
"""

from collections.abc import Callable
from pathlib import Path

from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls import pem
from engine.security.tls.jks import is_java_store, read_java_store
from engine.security.tls.keys import (
    KEY_PASSWORD,
    KEYSTORE,
    PEM,
    TRUSTSTORE,
    TYPES,
    StoreKeys,
    has_key,
    place,
    store_type,
)
from engine.security.tls.pkcs12 import is_pkcs12, read_pkcs12
from engine.security.tls.store import BadStore, KeyEntry, Store, only_key


def client_key(settings: SecuritySettings) -> KeyEntry | None:
    """Return the client's key and certificates, None if the settings have none. Raises BadSecurity."""
    password = settings.known(KEY_PASSWORD)
    key, chain = KEYSTORE.inline
    if key in settings:
        try:
            return pem.key_entry(_lines(settings.text(key)), _lines(settings.text(chain)), password)
        except BadStore as bad:
            raise _error(key, bad) from None
    if KEYSTORE.location not in settings:
        return None
    data = _read(settings, KEYSTORE)
    try:
        if isinstance(data, str):
            return pem.key_entry(data, data, password)
        own = settings.known(KEYSTORE.password)
        return only_key(_store(data, own, own if password is None else password))
    except BadStore as bad:
        raise _error(KEYSTORE.location, bad) from None


def trusted(settings: SecuritySettings) -> tuple[bytes, ...] | None:
    """Return the trusted certificates in DER; None: those of the system. Raises BadSecurity."""
    (inline,), key = TRUSTSTORE.inline, place(settings, TRUSTSTORE)
    try:
        if key == inline:
            return pem.certificates(_lines(settings.text(inline)))
        if key not in settings:
            return None
        data = _read(settings, TRUSTSTORE)
        if isinstance(data, str):
            return pem.certificates(data)
        found = _store(data, settings.known(TRUSTSTORE.password), None).trusted
        if not found:
            raise BadStore("holds no certificate", "add the authority of the brokers")
        return found
    except BadStore as bad:
        raise _error(key, bad) from None


def as_pem(settings: SecuritySettings) -> dict[str, str]:
    """Return the stores as PEM text under Kafka's keys, for a Java client on a node without the files.

    PEM stays as it is, so that an encrypted key stays encrypted. Raises BadSecurity.
    """
    found: dict[str, str] = {}
    if TRUSTSTORE.location in settings or TRUSTSTORE.inline[0] in settings:
        text = _pem_of(settings, TRUSTSTORE, TRUSTSTORE.inline[0])
        if text is None:
            blocks = pem.certificates_text(trusted(settings) or ())
        else:
            blocks = _block(TRUSTSTORE, settings, pem.certificate_blocks, text)
        found |= {TRUSTSTORE.type: PEM, TRUSTSTORE.inline[0]: blocks}
    return found | (_key_as_pem(settings) if has_key(settings) else {})


def _key_as_pem(settings: SecuritySettings) -> dict[str, str]:
    key, chain = KEYSTORE.inline
    found = {KEYSTORE.type: PEM}
    text = _pem_of(settings, KEYSTORE, key)
    if text is not None:
        block = _block(KEYSTORE, settings, pem.key_block, text)
        chained = _block(KEYSTORE, settings, pem.certificate_blocks, _pem_of(settings, KEYSTORE, chain) or text)
        if pem.is_pkcs8(block):
            # Java decrypts a key if there is a password, also one that is not encrypted.
            password = settings.known(KEY_PASSWORD) if pem.is_encrypted(block) else None
            return {**found, key: block, chain: chained, **({} if password is None else {KEY_PASSWORD: password})}
    entry = client_key(settings)
    assert entry is not None
    return {**found, key: pem.key_text(entry), chain: pem.certificates_text(entry.chain)}


def _block(keys: StoreKeys, settings: SecuritySettings, find: Callable[[str], str], text: str) -> str:
    try:
        return find(text)
    except BadStore as bad:
        raise _error(place(settings, keys), bad) from None


def _pem_of(settings: SecuritySettings, keys: StoreKeys, inline: str) -> str | None:
    """Return the PEM text of a store; None if it has another format. Raises BadSecurity."""
    if inline in settings:
        return _lines(settings.text(inline))
    data = _read(settings, keys)
    return data if isinstance(data, str) else None


def _read(settings: SecuritySettings, keys: StoreKeys) -> bytes | str:
    """Return the content of a store's file: text if it is PEM. Raises BadSecurity."""
    try:
        data = Path(settings.text(keys.location)).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name has a NUL"
        raise BadSecurity(keys.location, f"cannot be read: {reason}", "give a readable file") from None
    is_pem, kind = pem.is_pem(data), store_type(settings, keys)
    if kind == PEM and (is_java_store(data) or (is_pkcs12(data) and not is_pem)):
        right = f"set {keys.type} = {'JKS' if is_java_store(data) else 'PKCS12'}"
        raise BadSecurity(keys.type, f"is {PEM}, but the file is a Java key store", right)
    if kind == PEM:
        return data.decode("latin-1")
    if is_pem and not is_java_store(data) and not is_pkcs12(data):
        raise BadSecurity(keys.location, f"is a PEM file, but its type is {kind}", f"set {keys.type}={PEM}")
    return data


def _store(data: bytes, password: str | None, key_password: str | None) -> Store:
    if is_java_store(data):
        return read_java_store(data, password, key_password)
    if is_pkcs12(data):
        return read_pkcs12(data, password)
    raise BadStore(f"is none of {', '.join(TYPES)}")


def _error(key: str, bad: BadStore) -> BadSecurity:
    passwords = {KEYSTORE.location: f"{KEYSTORE.password} and {KEY_PASSWORD}", KEYSTORE.inline[0]: KEY_PASSWORD}
    right = f"check {passwords.get(key, TRUSTSTORE.password)}" if bad.of_password else "give a whole store"
    return BadSecurity(key, f"cannot be used: {bad.wrong}", bad.right or right)


def _lines(text: str) -> str:
    """Return PEM text with its lines: a value may have its line feeds as the two characters of an escape."""
    return text.replace("\\n", "\n")
