"""The settings of one client, as plain values: how it connects to its cluster and asks it (Kafka's client keys)."""

import msgspec

from engine.base.clock import Backoff
from engine.config.tuning.client_login import ClientLogin

RECONNECT = Backoff(0.05, 1.0)
"""Pauses between attempts to connect for copying, if no key says otherwise: Kafka's defaults."""
_MOST_DOUBLINGS = 10


class ClientTuning(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes; the defaults are raymirror's own."""

    client_id: str = ""
    """`client.id`; empty: raymirror's own id."""
    is_whole_id: bool = False
    """Whether `client_id` is the whole id, as for MM2's producer of the data; else raymirror's id follows it."""
    canonical_names: bool = False
    """Whether the bootstrap addresses are replaced by the canonical names of all their addresses (KIP-235)."""
    setup_s: float = 10.0
    """For a connect and for each step of the handshake; doubled after each failure, up to `most_setup_s`."""
    most_setup_s: float = 30.0
    reconnect: Backoff | None = None
    """Pauses between attempts to connect to one broker; None: raymirror's own."""
    idle_s: float = 0.0
    """A connection that was idle for longer is not used again; 0: no limit."""
    send_bytes: int = -1
    """The send buffer of sockets; -1: the operating system's."""
    receive_bytes: int = -1
    """The receive buffer of sockets; -1: the operating system's."""
    answer_s: float = 30.0
    """Without an answer for longer, a connection counts as lost."""
    api_s: float = 30.0
    """What a broker may take to create, change or delete topics."""
    retry: Backoff = Backoff(0.1, 1.0)
    """Pauses between two attempts of a request that a broker refused for now."""
    leaders_s: float = 30.0
    """Leaders are looked up this often, changed or not."""
    login: ClientLogin | None = None
    """How the client logs in; None: as its cluster says."""

    def whole_id(self, own: str) -> str:
        """Return the client id of connections whose own id is `own`."""
        if not self.client_id:
            return own
        return self.client_id if self.is_whole_id else f"{self.client_id}|{own}"

    def setup_after_s(self, failures: int) -> float:
        """Return the time for the next attempt to connect, after so many failed ones (KIP-601)."""
        return max(self.setup_s, min(self.most_setup_s, self.setup_s * 2.0 ** min(failures, _MOST_DOUBLINGS)))
