"""Which cluster the connections of one client belong to: the id that its first broker named, for good (KIP-78).

A broker process belongs to one cluster for its life, so a connection whose broker named the id once needs no second
look. An id proves a difference and never a sameness: images ship constant ones, and snapshots copy them.
"""

from engine.base.errors import OtherCluster


class ClusterIdentity:
    """The cluster id that a client believes in; empty while no broker has named one (before Kafka 0.10.1)."""

    def __init__(self, alias: str) -> None:
        self.id = ""
        self._alias = alias
        self._seen: set[str] = set()
        self._untaken: list[OtherCluster] = []

    def admit(self, found: str, where: str) -> None:
        """Take the first id that is named; later ones must be the same. Raises OtherCluster."""
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
        """Hand over the refusals since the last call, one for each id."""
        others, self._untaken = self._untaken, []
        return others

    def forget(self) -> None:
        """Believe the next broker that is asked: the one before was of a cluster that nothing may be done to."""
        self.id = ""
        self._seen.clear()
