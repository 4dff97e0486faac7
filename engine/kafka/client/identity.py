"""The cluster id that all connections of one client must have: the id that its first broker named (KIP-78).

A broker process belongs to one cluster for its whole life, so one check per connection is enough. Different ids prove
different clusters, but equal ids prove nothing: container images ship constant ids, and snapshots copy them.
"""

from engine.base.errors import OtherCluster


class ClusterIdentity:
    """The cluster id of a client; empty while no broker has named one (before Kafka 0.10.1)."""

    def __init__(self, alias: str) -> None:
        self.id = ""
        self._alias = alias
        self._seen: set[str] = set()
        self._untaken: list[OtherCluster] = []

    def admit(self, found: str, where: str) -> None:
        """Accept the first id; later ids must be the same. Raises OtherCluster."""
        if not found or found == self.id:
            return
        if not self.id:
            self.id = found
            return
        other = OtherCluster(
            f"cluster {self._alias!r} at {where}",
            found,
            f"this process has connected to cluster {self.id} under that alias",
            f"let {self._alias}.bootstrap.servers lead to cluster {self.id} again; if the cluster was replaced on"
            " purpose, restart the mirror, which then compares it with its stored positions",
        )
        if found not in self._seen:
            self._seen.add(found)
            self._untaken.append(other)
        raise other

    def take_others(self) -> list[OtherCluster]:
        """Return and clear the refusals since the last call, one for each id."""
        others, self._untaken = self._untaken, []
        return others

    def forget(self) -> None:
        """Forget the id and accept that of the next broker: the previous cluster was not the expected one."""
        self.id = ""
        self._seen.clear()
