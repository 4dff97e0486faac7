"""The login of one client, where it is not that of its cluster."""

from typing import Any

import msgspec


class ClientLogin(msgspec.Struct, frozen=True):
    """Security settings by Kafka's names, with unresolved placeholders, and the key of the file that sets each of them.

    Its repr shows no value: some may be passwords.
    """

    security: dict[str, str]
    keys: dict[str, str]

    def __repr__(self) -> str:
        return "ClientLogin()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []
