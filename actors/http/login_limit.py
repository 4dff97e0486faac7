"""Limits failed log-ins by address, in constant memory: whoever guesses passwords gets few guesses a minute.

Each address has a number of attempts; one that fails is given back after a while, one that succeeds at once. An attempt
is taken before the secret is looked at, so requests that come together get no more guesses. A request without a secret
is no attempt, nor is one of an open session. Behind a proxy all clients share its address.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from actors.rest.exchange import HttpRefusal
from engine.base.clock import now_s

MOST_FAILURES: Final = 20
"""Failed attempts of an address at once."""
BACK_S: Final = 6.0
"""Seconds after which an address may fail once more."""
MOST_ADDRESSES: Final = 1024
"""Addresses with failures that are remembered; the one that failed longest ago gives way."""
_PREFIX_6: Final = 64
"""One machine may have a whole network of this size, of IPv6."""


class _Attempts(msgspec.Struct):
    left: float
    at_s: float


class LoginLimit:
    """The attempts of all addresses. `most`: of one address at once."""

    def __init__(self, most: int = MOST_FAILURES, now: Callable[[], float] = now_s) -> None:
        self._most, self._now = most, now
        self._known: OrderedDict[str, _Attempts] = OrderedDict()

    @property
    def addresses(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def take(self, address: str | None) -> None:
        """Take an attempt. Raises HttpRefusal (429) if the address has none left."""
        key = _network_of(address)
        found = self._present(key)
        if found.left < 1:
            wait_s = max(1, round((1 - found.left) * BACK_S + 0.5))
            raise HttpRefusal(
                429,
                f"Too many log-ins from this address have failed; try again in {wait_s} s",
                (("Retry-After", str(wait_s)),),
            )
        found.left -= 1
        self._known[key] = found
        self._known.move_to_end(key)
        if len(self._known) > MOST_ADDRESSES:
            self._known.popitem(last=False)

    def give_back(self, address: str | None) -> None:
        """Give an attempt back that has succeeded."""
        key = _network_of(address)
        found = self._present(key)
        found.left += 1
        if found.left >= self._most:
            self._known.pop(key, None)

    def _present(self, key: str) -> _Attempts:
        now = self._now()
        found = self._known.get(key) or _Attempts(float(self._most), now)
        found.left = min(float(self._most), found.left + (now - found.at_s) / BACK_S)
        found.at_s = now
        return found


def _network_of(address: str | None) -> str:
    """Return what counts as one address; of IPv6 its network."""
    try:
        read = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if isinstance(read, ipaddress.IPv6Address):
        mapped = read.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((int(read), _PREFIX_6), strict=False))
    return str(read)
