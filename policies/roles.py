"""The roles of the users of the HTTP server: each includes the rights of the one before it."""

import enum


class Role(enum.StrEnum):
    """What a user of the HTTP server may do."""

    VIEW = "view"
    """Read: status, settings, offsets, metrics."""
    OPERATE = "operate"
    """Also pause, resume, stop, restart and prove, and see what refused records contain."""
    ADMIN = "admin"
    """Also change settings, offsets, copies and log levels, and move groups and producers."""

    def covers(self, needed: "Role") -> bool:
        """Whether this role includes the rights of another."""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER = tuple(Role)
ROLES = tuple(role.value for role in _ORDER)
"""The words of the roles, the weakest first."""
