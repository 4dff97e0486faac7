"""Sessions and one-time tokens: how long they live, how many there are, and what ends them."""

import pytest

from actors.console.sessions import IDLE_S, MOST_SESSIONS, MOST_TOKENS, OLDEST_S, TOKEN_LASTS_S, SessionBook
from engine.config.http.http_secrets import HttpLogin, digest_of_secret
from policies.roles import Role

EVE = HttpLogin(name="eve", role=Role.OPERATE, password=digest_of_secret("pass"))
LOGINS = (EVE, HttpLogin(name="ci", role=Role.VIEW, token=digest_of_secret("t0ken")))


class Clock:
    """A time that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> SessionBook:
    return SessionBook(clock)


def test_a_session_is_found_by_its_cookie_alone(book: SessionBook) -> None:
    opened = book.open(EVE)
    found = book.find(opened.cookie, LOGINS)
    assert found is not None
    assert (found.login, found.csrf) == (EVE, opened.proven.csrf)
    assert book.find("", LOGINS) is None
    assert book.find(opened.proven.csrf, LOGINS) is None
    assert book.find(opened.cookie + "x", LOGINS) is None


def test_no_two_secrets_are_the_same(book: SessionBook) -> None:
    opened = [book.open(EVE) for _ in range(20)]
    secrets = [one.cookie for one in opened] + [one.proven.csrf for one in opened]
    assert len(set(secrets)) == 40
    assert min(map(len, secrets)) >= 43  # 32 bytes


def test_a_session_ends_when_it_rests_too_long(book: SessionBook, clock: Clock) -> None:
    cookie = book.open(EVE).cookie
    clock.now += IDLE_S - 1
    assert book.find(cookie, LOGINS) is not None
    clock.now += IDLE_S - 1
    assert book.find(cookie, LOGINS) is not None
    clock.now += IDLE_S
    assert book.find(cookie, LOGINS) is None


def test_a_session_ends_at_its_oldest_age_even_if_it_is_used(book: SessionBook, clock: Clock) -> None:
    cookie, began = book.open(EVE).cookie, clock.now
    while clock.now - began < OLDEST_S - IDLE_S / 2:
        clock.now += IDLE_S / 2
        assert (book.find(cookie, LOGINS) is not None) is (clock.now - began < OLDEST_S)
    clock.now = began + OLDEST_S
    assert book.find(cookie, LOGINS) is None


@pytest.mark.parametrize(
    "now",
    [
        (),
        (HttpLogin(name="eve", role=Role.VIEW, password=EVE.password),),
        (HttpLogin(name="eve", role=Role.OPERATE, password=digest_of_secret("changed")),),
    ],
    ids=["removed", "another role", "another password"],
)
def test_a_session_ends_with_what_its_user_was(book: SessionBook, now: tuple[HttpLogin, ...]) -> None:
    cookie = book.open(EVE).cookie
    assert book.find(cookie, now) is None
    assert book.find(cookie, LOGINS) is None  # it does not come back


def test_a_closed_session_is_gone_and_closing_it_again_is_nothing(book: SessionBook) -> None:
    cookie = book.open(EVE).cookie
    book.close(cookie)
    book.close(cookie)
    book.close("x")
    assert book.find(cookie, LOGINS) is None


def test_the_session_that_rested_longest_gives_way(book: SessionBook, clock: Clock) -> None:
    cookies = []
    for _ in range(MOST_SESSIONS):
        clock.now += 1
        cookies.append(book.open(EVE).cookie)
    clock.now += 1
    assert book.find(cookies[0], LOGINS) is not None
    book.open(EVE)
    assert [book.find(one, LOGINS) is None for one in cookies[:3]] == [False, True, False]


def test_a_token_opens_one_session_of_no_configured_user(book: SessionBook) -> None:
    token = book.make_token("root", Role.ADMIN)
    opened = book.use_token(token)
    assert opened is not None
    found = book.find(opened.cookie, LOGINS)
    assert found is not None
    assert (found.login.name, found.login.role) == ("root", Role.ADMIN)
    assert book.use_token(token) is None
    assert book.use_token("") is None


def test_a_token_is_no_cookie_and_a_cookie_no_token(book: SessionBook) -> None:
    token = book.make_token("root", Role.ADMIN)
    assert book.find(token, LOGINS) is None
    assert book.use_token(book.open(EVE).cookie) is None
    assert book.use_token(token) is not None


def test_a_token_that_nobody_used_is_worth_nothing_soon(book: SessionBook, clock: Clock) -> None:
    early, late = book.make_token("root", Role.VIEW), ""
    clock.now += TOKEN_LASTS_S - 1
    late = book.make_token("root", Role.VIEW)
    clock.now += 1
    assert book.use_token(early) is None
    assert book.use_token(late) is not None


def test_old_tokens_give_way_to_new_ones(book: SessionBook) -> None:
    tokens = [book.make_token("root", Role.VIEW) for _ in range(MOST_TOKENS + 1)]
    assert book.use_token(tokens[0]) is None
    assert book.use_token(tokens[1]) is not None


def test_no_secret_is_kept_and_none_is_shown(book: SessionBook) -> None:
    opened, token = book.open(EVE), book.make_token("root", Role.VIEW)
    kept = repr(vars(book)["_tokens"]) + repr(list(vars(book)["_sessions"]))
    assert opened.cookie not in kept
    assert token not in kept
