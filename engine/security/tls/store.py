"""The content of a key store, whatever its format: keys with their certificates, and trusted certificates."""

from typing import Any

import msgspec

from engine.base.errors import MirrorError


class BadStore(MirrorError):
    """A store that cannot be read: what is wrong, and what would be right. `of_password`: its password is to blame."""

    def __init__(self, wrong: str, right: str = "", *, of_password: bool = False) -> None:
        super().__init__(wrong, right, of_password)
        self.wrong, self.right, self.of_password = wrong, right, of_password

    def __str__(self) -> str:
        return self.wrong


class KeyEntry(msgspec.Struct, frozen=True):
    """A private key (PKCS#8 in DER, not encrypted) and its certificates in DER, the key's own one first."""

    alias: str
    key: bytes
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyEntry({self.alias!r})"

    def __rich_repr__(self) -> Any:
        yield self.alias


class Store(msgspec.Struct, frozen=True):
    """The content of a store; `trusted` also has the own certificate of each key, as Java's trust managers have."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


def only_key(store: Store) -> KeyEntry:
    """Return the key of a store. Raises BadStore unless it has exactly one."""
    if not store.keys:
        raise BadStore("holds no private key", "give a store with the client's key and certificates")
    if len(store.keys) > 1:
        names = ", ".join(sorted(entry.alias for entry in store.keys))
        right = "give a store with one key: nothing says which of them a broker wants"
        raise BadStore(f"holds {len(store.keys)} private keys ({names})", right)
    return store.keys[0]
