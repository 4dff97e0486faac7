"""Finds free ports for brokers."""

import random
import socket
from collections.abc import Collection, Sequence
from contextlib import ExitStack

from deploy.local.errors import ClusterError

HOST = "127.0.0.1"
# Above Ray's worker ports (10002-19999) and below Linux's ephemeral range (32768 up): no outgoing connection may take
# the port of a broker that restarts.
LOWEST, HIGHEST = 20000, 32767


def pick_ports(count: int, taken: Collection[int] = ()) -> list[int]:
    """Random ports on which nothing listens now; random, so that clusters that start in parallel do not collide.

    `taken`: ports that a broker which has not started will listen on.
    """
    picked: list[int] = []
    with ExitStack() as held:
        for port in random.sample(range(LOWEST, HIGHEST + 1), k=1000):
            probe = held.enter_context(socket.socket())
            if port not in taken and _binds(probe, port):
                picked.append(port)
            if len(picked) == count:
                return picked
    raise ClusterError(f"no {count} free ports", f"1000 tried between {LOWEST} and {HIGHEST} on {HOST}")


def first_free(choices: Sequence[Sequence[int]], count: int) -> list[int]:
    """The first of these lists of ports that is long enough and on which nothing listens; else random free ports."""
    for choice in choices:
        if len(choice) >= count and all(port and is_free(port) for port in choice[:count]):
            return list(choice[:count])
    return pick_ports(count)


def is_free(port: int) -> bool:
    """Whether a broker could listen on this port now."""
    with socket.socket() as probe:
        return _binds(probe, port)


def _binds(probe: socket.socket, port: int) -> bool:
    # As Java's server sockets do: with this option a port in TIME_WAIT after a restart is free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
        probe.listen(1)
    except OSError:
        return False
    return True
