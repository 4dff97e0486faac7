"""Keeps the token of a login for all connections of a process, and fetches the next one before it expires.

A token is fetched when a connection asks for it: for its first login, or for the next one within the broker's time
(KIP-368), which comes after the time at which Kafka refreshes. So no thread has to wait for that time. Clients with
the same settings share one token, as Kafka's LoginManager has one login for them.
"""

import random
from collections.abc import Callable, Hashable
from threading import Lock
from weakref import WeakValueDictionary

from engine.base.clock import wall_ms
from engine.base.redaction import remember_token
from engine.security.oauth.refresh import RefreshRules
from engine.security.oauth.token import Token
from engine.security.sasl.login import LoginFailed

Fetch = Callable[[], Token]
"""Fetches a token; it may wait for a server. Raises LoginFailed."""
_AGAIN_MS = 10_000
"""After a failure with a token that is still valid (Kafka: DELAY_SECONDS_BEFORE_NEXT_RETRY_WHEN_RELOGIN_FAILS)."""
_REST_MS, _MOST_REST_MS = 500, 10_000
"""After a failure without a valid token: for so long, then twice as long, everybody gets the same error."""


class TokenKeeper:
    """The token of one login; safe for threads."""

    def __init__(self, fetch: Fetch, rules: RefreshRules, chance: Callable[[], float] = random.random) -> None:
        self._fetch = fetch
        self._rules = rules
        self._chance = chance
        self._fetching = Lock()
        self._token: Token | None = None
        self._refresh_ms = 0
        self._failure: LoginFailed | None = None
        self._rest_ms = _REST_MS
        self._again_ms = 0
        """When to try again after a failure."""

    def get(self) -> Token:
        """Return a valid token. Raises LoginFailed if there is none, and none can be fetched."""
        token, now_ms = self._token, wall_ms()
        if token is None or now_ms >= token.expires_ms:
            with self._fetching:
                return self._needed()
        if now_ms >= max(self._refresh_ms, self._again_ms) and self._fetching.acquire(blocking=False):
            try:
                return self._refreshed(token)
            finally:
                self._fetching.release()
        return token

    def _needed(self) -> Token:
        """Fetch a token, unless another thread has done so meanwhile."""
        now_ms = wall_ms()
        if self._token is not None and now_ms < self._token.expires_ms:
            return self._token
        if self._failure is not None and now_ms < self._again_ms:
            raise LoginFailed(self._failure.why, may_pass=self._failure.may_pass)
        try:
            return self._take(self._fetch())
        except LoginFailed as failure:
            self._failure, self._again_ms = failure, wall_ms() + self._rest_ms
            self._rest_ms = min(_MOST_REST_MS, 2 * self._rest_ms)
            raise

    def _refreshed(self, token: Token) -> Token:
        """Fetch the next token; the old one is still valid if that fails."""
        try:
            return self._take(self._fetch())
        except LoginFailed:
            self._again_ms = wall_ms() + _AGAIN_MS
            return token

    def _take(self, token: Token) -> Token:
        now_ms = wall_ms()
        remember_token(token.value)
        if token.expires_ms <= now_ms:
            raise LoginFailed("the token has expired already; is the clock of this machine right?", may_pass=True)
        self._token, self._refresh_ms = token, self._rules.next_ms(token, now_ms, self._chance())
        self._failure, self._rest_ms, self._again_ms = None, _REST_MS, 0
        return token


_shared: "WeakValueDictionary[Hashable, TokenKeeper]" = WeakValueDictionary()
_sharing = Lock()


def shared_keeper(key: Hashable, make: Callable[[], TokenKeeper]) -> TokenKeeper:
    """Return the keeper of a key, made if nobody in this process has one."""
    with _sharing:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = make()
        return found
