"""Rules for when a token is fetched again: `sasl.login.refresh.*` (Kafka: ExpiringCredentialRefreshingLogin)."""

import msgspec

from engine.security.oauth.keys import (
    BUFFER,
    MIN_PERIOD,
    WINDOW_FACTOR,
    WINDOW_JITTER,
)
from engine.security.oauth.token import Token
from engine.security.settings import SecuritySettings


class RefreshRules(msgspec.Struct, frozen=True):
    """Parts of a token's life, and seconds that are kept free at its begin and before its end if it is long enough."""

    factor: float = 0.8
    jitter: float = 0.05
    least_s: float = 60.0
    buffer_s: float = 300.0

    def next_ms(self, token: Token, now_ms: int, chance: float) -> int:
        """Return when to fetch the next token after one that came now; `chance` is from 0 to 1."""
        part = self.factor + self.jitter * chance
        if now_ms + 1000 * (self.least_s + self.buffer_s) > token.expires_ms:
            return now_ms + int((token.expires_ms - now_ms) * part)
        proposed = token.issued_ms + int((token.expires_ms - token.issued_ms) * part)
        latest, earliest = token.expires_ms - int(self.buffer_s * 1000), now_ms + int(self.least_s * 1000)
        return latest if proposed > latest else max(proposed, earliest)


def read_rules(settings: SecuritySettings) -> RefreshRules:
    """Return the rules of the settings. Raises BadSecurity."""
    return RefreshRules(
        settings.number(WINDOW_FACTOR, 0.8, 0.5, 1.0),
        settings.number(WINDOW_JITTER, 0.05, 0.0, 0.25),
        settings.number(MIN_PERIOD, 60, 0, 900),
        settings.number(BUFFER, 300, 0, 3600),
    )
