"""Who may use the server: passwords, tokens, roles, and pages of browsers."""

import base64

import pytest

from actors.rest.access import refuse_foreign_page, refuse_weak, user_of
from actors.rest.exchange import HttpRefusal
from engine.config.http.http_secrets import HttpLogin, digest_of_secret
from policies.roles import ROLES, Role

EVE = HttpLogin(name="eve", role=Role.VIEW, password=digest_of_secret("hunter2"))
BOB = HttpLogin(name="bob", role=Role.ADMIN, password=digest_of_secret("swordfish"), token=digest_of_secret("t0ken"))
GONE = HttpLogin(name="gone", role=Role.ADMIN)
LOGINS = (EVE, BOB, GONE)


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "login"),
    [
        (basic("eve:hunter2"), EVE),
        (basic("bob:swordfish"), BOB),
        ({"authorization": "Bearer t0ken"}, BOB),
        ({"authorization": "bearer  t0ken "}, BOB),
        ({"authorization": basic("eve:hunter2")["authorization"].replace("Basic", "basic")}, EVE),
    ],
)
def test_a_secret_names_its_user(headers: dict[str, str], login: HttpLogin) -> None:
    assert user_of(LOGINS, headers) == login


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Basic"},
        {"authorization": "Basic ?"},
        {"authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()},
        basic("eve:swordfish"),
        basic("bob:hunter2"),
        basic("eve"),
        basic("eve:"),
        basic(":hunter2"),
        basic("gone:"),
        basic("nobody:hunter2"),
        {"authorization": "Bearer hunter2"},
        {"authorization": "Bearer "},
        {"authorization": "Digest t0ken"},
        {"authorization": "Bearer " + "0" * 64},
        {"authorization": "Basic \u00e9"},
        {"authorization": "Basic \udcff"},  # a byte that is no UTF-8, as aiohttp gives it
        {"authorization": "Bearer \udcff"},
    ],
)
def test_anything_else_is_401_with_both_challenges(headers: dict[str, str]) -> None:
    with pytest.raises(HttpRefusal) as refused:
        user_of(LOGINS, headers)
    assert refused.value.status == 401
    assert [value.partition(" ")[0] for _, value in refused.value.headers] == ["Basic", "Bearer"]
    assert "hunter2" not in refused.value.message


def test_a_password_may_hold_a_colon() -> None:
    login = HttpLogin(name="eve", role=Role.VIEW, password=digest_of_secret("a:b"))
    assert user_of((login,), basic("eve:a:b")) == login


def test_without_users_everybody_may_do_everything() -> None:
    assert user_of((), {}).role is Role.ADMIN


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("needed", list(Role))
def test_a_role_includes_the_weaker_ones(role: Role, needed: Role) -> None:
    login = HttpLogin(name="eve", role=role)
    if ROLES.index(role) >= ROLES.index(needed):
        refuse_weak(login, needed)
    else:
        with pytest.raises(HttpRefusal, match=f"has the role {role}; this needs the role {needed}") as refused:
            refuse_weak(login, needed)
        assert refused.value.status == 403


PAGES = [
    ("PUT", {"host": "h:1"}, True, True),
    ("PUT", {"host": "h:1", "origin": "http://h:1"}, True, True),
    ("PUT", {"host": "H:1", "origin": "https://h:1", "sec-fetch-site": "same-origin"}, True, True),
    ("PUT", {"host": "h:1", "origin": "http://evil"}, True, False),
    ("PUT", {"host": "h:1", "origin": "null"}, True, False),
    ("PUT", {"origin": "null"}, True, False),
    ("PUT", {"host": "h:1", "origin": "http://["}, True, False),
    ("POST", {"host": "h:1", "sec-fetch-site": "cross-site"}, True, False),
    ("POST", {"host": "h:1", "sec-fetch-site": "same-site"}, True, False),
    ("DELETE", {"host": "h:1", "origin": "http://h:2"}, True, False),
    ("GET", {"host": "h:1", "origin": "http://evil"}, True, True),
    ("GET", {"host": "h:1"}, False, False),
    ("GET", {}, False, False),
    ("GET", {"host": "evil.example:8083"}, False, False),
    ("GET", {"host": "localhost"}, False, True),
    ("GET", {"host": "LOCALHOST:8083"}, False, True),
    ("GET", {"host": "127.0.0.1:8083"}, False, True),
    ("GET", {"host": "[::1]:8083"}, False, True),
    ("GET", {"host": "["}, False, False),
    ("PUT", {"host": "localhost:1", "origin": "http://localhost:2"}, False, False),
]


@pytest.mark.parametrize(("method", "headers", "has_users", "is_answered"), PAGES)
def test_a_page_of_another_origin_changes_nothing(
    method: str, headers: dict[str, str], has_users: bool, is_answered: bool
) -> None:
    if is_answered:
        refuse_foreign_page(method, headers, has_users=has_users)
    else:
        with pytest.raises(HttpRefusal) as refused:
            refuse_foreign_page(method, headers, has_users=has_users)
        assert refused.value.status == 403
