"""Replaces bootstrap addresses by the canonical names of all their IP addresses (KIP-235).

`client.dns.lookup = resolve_canonical_bootstrap_servers_only` asks for it: one alias of many brokers, whose
certificates or Kerberos principals have the brokers' own names.
"""

import asyncio
import socket
from collections.abc import Sequence

Address = tuple[str, int]


async def canonical(addresses: Sequence[Address]) -> list[Address]:
    """Return the canonical addresses, each once; an address that cannot be resolved stays as it is."""
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_names(*address)) for address in addresses]
    return list(dict.fromkeys(one for task in asked for one in task.result()))


async def _names(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [((await loop.getnameinfo((str(address[0]), port)))[0], port) for *_, address in resolved]
    except (OSError, UnicodeError):
        return [(host, port)]
