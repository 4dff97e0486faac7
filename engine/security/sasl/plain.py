"""PLAIN: user name and password in one message (RFC 4616, Kafka: PlainSaslClient)."""

from engine.security.sasl.login import Exchange


class PlainLogin:
    """A user name and a password; also API keys of Confluent Cloud and connection strings of Azure Event Hubs."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self.user = username
        self._password = password

    def exchange(self, host: str) -> Exchange:  # noqa: ARG002
        """Send both; an accepted login has an empty answer."""
        yield f"\0{self.user}\0{self._password}".encode()
