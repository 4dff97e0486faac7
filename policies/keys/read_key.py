"""A key that raymirror reads: the places where it may be set, its default, its meaning, its difference from MM2."""

import msgspec

OWN = "raymirror."
"""The beginning of raymirror's own keys."""
PLACES = {
    "top": ("key",),
    "cluster": ("X.key", "key"),
    "login": ("X.key", "key"),
    "flow": ("A->B.key", "key"),
    "filter": ("A->B.key",),
    "storage": ("key", "B.key"),
    "worker": ("B.key",),
    "consumer": ("A->B.source.consumer.key", "A.consumer.key", "A->B.consumer.key"),
    "producer": ("A->B.producer.override.key", "B.producer.key"),
    "admin": ("A->B.SIDE.admin.key", "X.admin.key", "A->B.admin.key"),
}
"""Level -> the places of its keys, strongest first: X is any cluster, A the source and B the target of a flow."""
REMARKS = {
    "login": "one client of a flow may have its own, see [docs/logins.md](../docs/logins.md#one-login-for-each-client)",
    "filter": "top level has no effect, as in MM2",
    "storage": "MM2's order: top level wins",
    "admin": "for the processes that do not copy; SIDE is `source` or `target`, X the cluster on that side",
}
"""Level -> what is to be said about it."""


class ReadKey(msgspec.Struct, frozen=True):
    """One key. `meaning`, `default` and `differs` (from MM2) are Markdown; each may be empty.

    `levels`: one level, or several, separated by commas, if different clients have the key.
    """

    name: str
    levels: str
    default: str
    meaning: str
    differs: str = ""

    @property
    def each_level(self) -> tuple[str, ...]:
        """The levels, one by one."""
        return tuple(self.levels.split(", "))

    @property
    def is_own(self) -> bool:
        """Whether it is raymirror's own key, which MM2 does not know."""
        return self.name.startswith(OWN)
