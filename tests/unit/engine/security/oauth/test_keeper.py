"""When tokens are fetched: at the first need, again before they expire, and what a failure changes."""

import pytest

from engine.base.clock import pause, wall_ms
from engine.base.redaction import HIDDEN, own_redacted
from engine.security.oauth.keeper import TokenKeeper, shared_keeper
from engine.security.oauth.refresh import RefreshRules, read_rules
from engine.security.oauth.token import Token
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings

RULES = RefreshRules()


def token(lives_s: float, number: int = 1, issued_ms: int | None = None) -> Token:
    begin = wall_ms() if issued_ms is None else issued_ms
    return Token(f"token-{number}", "me", begin, begin + int(lives_s * 1000))


class Server:
    """Gives numbered tokens, or fails."""

    def __init__(self, lives_s: float) -> None:
        self.lives_s = lives_s
        self.asked = 0
        self.fails = False

    def __call__(self) -> Token:
        self.asked += 1
        if self.fails:
            raise LoginFailed("away", may_pass=True)
        return token(self.lives_s, self.asked)


@pytest.mark.parametrize(
    ("lives_s", "chance", "after_s"),
    [
        (3600, 0.0, 2880),
        (3600, 1.0, 3060),
        (30, 0.0, 24),
        (30, 1.0, 25.5),
        (361, 1.0, 61),
        (400, 0.0, 100),
        (1000, 0.0, 700),
    ],
    ids=["a part", "with jitter", "short", "short with jitter", "least period", "buffer", "before the buffer"],
)
def test_the_time_of_the_next_fetch_is_kafka_s(lives_s: float, chance: float, after_s: float) -> None:
    assert RULES.next_ms(token(lives_s, issued_ms=0), 0, chance) == after_s * 1000


def test_rules_are_kafka_s_keys() -> None:
    begin = "sasl.login.refresh."
    named = {f"{begin}window.factor": "0.5", f"{begin}window.jitter": "0", f"{begin}min.period.seconds": "1"}
    assert read_rules(SecuritySettings(named | {f"{begin}buffer.seconds": "2"})) == RefreshRules(0.5, 0.0, 1, 2)
    assert read_rules(SecuritySettings({})) == RULES
    with pytest.raises(BadSecurity, match=r"window\.factor: is no number from 0\.5 to 1"):
        read_rules(SecuritySettings({f"{begin}window.factor": "0.4"}))


async def test_one_token_until_it_is_time_for_the_next() -> None:
    server = Server(30.0)
    keeper = TokenKeeper(server, RULES, lambda: 0.0)
    assert [keeper.get().value for _ in range(3)] == ["token-1"] * 3
    await pause(23.9)
    assert keeper.get().value == "token-1"
    await pause(0.2)
    assert keeper.get().value == "token-2"
    await pause(100.0)
    assert keeper.get().value == "token-3"
    assert server.asked == 3


async def test_the_old_token_serves_while_the_next_one_cannot_be_had() -> None:
    server = Server(100.0)
    keeper = TokenKeeper(server, RULES, lambda: 0.0)
    keeper.get()
    server.fails = True
    await pause(81.0)
    assert [keeper.get().value for _ in range(5)] == ["token-1"] * 5
    assert server.asked == 2, "the next attempt is ten seconds later"
    await pause(10.0)
    keeper.get()
    assert server.asked == 3
    await pause(10.0)
    with pytest.raises(LoginFailed, match="away"):
        keeper.get()


async def test_a_server_that_fails_is_not_asked_by_every_connection() -> None:
    server = Server(100.0)
    server.fails = True
    keeper = TokenKeeper(server, RULES)
    for _ in range(20):
        with pytest.raises(LoginFailed) as caught:
            keeper.get()
        assert caught.value.may_pass
    assert server.asked == 1
    await pause(0.6)
    with pytest.raises(LoginFailed):
        keeper.get()
    assert server.asked == 2
    server.fails = False
    await pause(1.1)
    assert keeper.get().value == "token-3"


def test_a_token_that_has_expired_already_is_none() -> None:
    with pytest.raises(LoginFailed, match="has expired already; is the clock"):
        TokenKeeper(Server(0.0), RULES).get()


def test_equal_logins_share_a_token_and_others_do_not() -> None:
    server = Server(100.0)
    one, same, other = (shared_keeper(key, lambda: TokenKeeper(server, RULES)) for key in ("a", "a", "b"))
    assert one is same
    assert one is not other


def test_a_token_is_hidden_in_texts_from_any_source() -> None:
    """Of files, signatures and servers alike: who keeps it remembers it."""
    keeper = TokenKeeper(Server(30.0), RULES)
    assert own_redacted(f"refused: {keeper.get().value}!") == f"refused: {HIDDEN}!"
