"""Who enters the console by what, the cookie, and what the page learns of it."""

import msgspec
import pytest

from actors.console.entering import REFUSED, USED_UP, ConsoleVisit, Entry, SessionCookie, SessionInfo
from actors.console.sessions import SessionBook
from actors.rest.exchange import HttpAnswer, HttpRefusal
from engine.config.http.http_secrets import HttpLogin
from policies.roles import Role
from tests.unit.actors.console.test_sessions import EVE, LOGINS

COOKIE = SessionCookie(8083, secure=False)


def visit(
    book: SessionBook, cookie: str = "", *, logins: tuple[HttpLogin, ...] = LOGINS, secure: bool = False
) -> ConsoleVisit:
    headers = {"cookie": f"other=1; raymirror-8083={cookie}; raymirror-9=x"} if cookie else {}
    return ConsoleVisit(book, SessionCookie(8083, secure=secure), headers, logins=logins, version="1.2")


def info(answer: HttpAnswer) -> SessionInfo:
    assert isinstance(answer.body, SessionInfo)
    return answer.body


def cookie_of(answer: HttpAnswer) -> str:
    (value,) = (value for name, value in answer.headers if name == "Set-Cookie")
    return value.partition("=")[2].partition(";")[0]


@pytest.mark.parametrize(
    ("entry", "name"),
    [(Entry(user="eve", password="pass"), "eve"), (Entry(token="t0ken"), "ci")],
    ids=["basic", "bearer"],
)
def test_a_user_enters_and_is_known_by_the_cookie(entry: Entry, name: str) -> None:
    book = SessionBook()
    answer = visit(book).enter(entry)
    shown = info(answer)
    assert (shown.user, shown.login, shown.version) == (name, True, "1.2")
    again = info(visit(book, cookie_of(answer)).present())
    assert again == shown
    assert again.csrf


@pytest.mark.parametrize(
    "entry",
    [
        Entry(),
        Entry(user="eve"),
        Entry(user="eve", password="wrong"),
        Entry(user="ci", password=""),
        Entry(user="ci", password="t0ken"),
        Entry(token="pass"),
        Entry(user="nobody", password="pass"),
    ],
)
def test_who_proves_nothing_gets_nothing(entry: Entry) -> None:
    book = SessionBook()
    with pytest.raises(HttpRefusal, match=REFUSED) as refused:
        visit(book).enter(entry)
    assert (refused.value.status, refused.value.headers) == (401, ())  # no challenge: no window of the browser
    assert info(visit(book).present()) == SessionInfo(user=None, role=None, csrf="", login=True, version="1.2")


def test_a_one_time_token_enters_once() -> None:
    book = SessionBook()
    token = book.make_token("root", Role.OPERATE)
    first = info(visit(book).enter(Entry(once=token)))
    assert (first.user, first.role) == ("root", Role.OPERATE)
    with pytest.raises(HttpRefusal, match=USED_UP[:20]):
        visit(book).enter(Entry(once=token))


def test_a_bad_token_is_not_made_good_by_a_password() -> None:
    with pytest.raises(HttpRefusal, match=USED_UP[:20]):
        visit(SessionBook()).enter(Entry(once="x", user="eve", password="pass"))


def test_a_new_session_ends_the_one_before() -> None:
    book = SessionBook()
    before = cookie_of(visit(book).enter(Entry(user="eve", password="pass")))
    after = cookie_of(visit(book, before).enter(Entry(token="t0ken")))
    assert visit(book, before).proven() is None
    found = visit(book, after).proven()
    assert found is not None
    assert found.login.name == "ci"


def test_leaving_ends_the_session_and_removes_the_cookie() -> None:
    book = SessionBook()
    value = book.open(EVE).cookie
    answer = visit(book, value).leave()
    assert answer.status == 204
    assert ("Set-Cookie", "raymirror-8083=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict") in answer.headers
    assert visit(book, value).proven() is None
    assert visit(book).leave().status == 204


def test_without_users_everybody_is_an_admin_and_has_no_session() -> None:
    book = SessionBook()
    for answer in (visit(book, logins=()).present(), visit(book, logins=()).enter(Entry(once="x"))):
        assert info(answer) == SessionInfo(user="nobody", role=Role.ADMIN, csrf="", login=False, version="1.2")
        assert answer.headers == ()


@pytest.mark.parametrize("secure", [False, True])
def test_the_cookie_is_for_this_server_alone_and_no_script_reads_it(secure: bool) -> None:
    name, value = SessionCookie(8083, secure=secure).write("abc")
    parts = value.split("; ")
    assert name == "Set-Cookie"
    assert parts[0] == "raymirror-8083=abc"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert ("Secure" in parts) is secure
    assert not any(part.startswith("Domain") for part in parts)


@pytest.mark.parametrize(
    "header", ["", "x", "raymirror-8083", "raymirror-9=a", "raymirror-8083=\x00;;=", '="', "a=b=c;" * 99]
)
def test_any_cookie_header_is_read(header: str) -> None:
    assert COOKIE.read({"cookie": header}) in ("", "\x00")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"user": "eve", "role": "admin"}', type=Entry)


@pytest.mark.parametrize(
    "others",
    [
        "{}",
        '; theme={{"a":1, "b": "c d"}}; {}',
        'x="open; {}; y',
        "  a b ;{} ;;",
        "raymirror-80=no;{};raymirror-8083=no",
    ],
)
def test_cookies_of_other_servers_of_the_host_do_not_hide_the_session(others: str) -> None:
    assert COOKIE.read({"cookie": others.format("raymirror-8083=value")}) == "value"
