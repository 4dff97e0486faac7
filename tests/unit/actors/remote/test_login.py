"""Logins: where they come from, what is refused, and that none is shown."""

from pathlib import Path

import pytest

from actors.remote.login import BadLogin, RemoteLogin, login_of


def file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "login"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_environment_has_a_token_or_a_user_with_a_password() -> None:
    assert login_of(None, {}).headers == {}
    assert login_of(None, {"RAYMIRROR_TOKEN": "t0ken"}).headers == {"Authorization": b"Bearer t0ken"}
    both = login_of(None, {"RAYMIRROR_USER": "eve", "RAYMIRROR_PASSWORD": "pä:ss"})
    assert both.headers == {"Authorization": b"Basic ZXZlOnDDpDpzcw=="}


def test_a_file_comes_before_the_environment(tmp_path: Path) -> None:
    found = login_of(file(tmp_path, "token = other\nca = /ca.pem\n"), {"RAYMIRROR_TOKEN": "t0ken"})
    assert (found.token, found.ca) == ("other", "/ca.pem")


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("token = x", 0o644, "other users of this machine may read it; chmod 600"),
        ("user = eve", 0o600, "a user and a password belong together"),
        ("tokn = x", 0o600, "tokn is unknown; it may have token, user, password, ca, certificate, key"),
        ("token = \\u12", 0o600, "hex digits"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_is_right(tmp_path: Path, text: str, mode: int, said: str) -> None:
    with pytest.raises(Exception, match=said):
        login_of(file(tmp_path, text, mode), {})


def test_a_file_without_a_secret_may_be_read_by_others(tmp_path: Path) -> None:
    assert login_of(file(tmp_path, "ca = /ca.pem", 0o644), {}).ca == "/ca.pem"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadLogin, match="cannot be read: No such file"):
        login_of(tmp_path / "none", {})


def test_a_login_is_not_shown() -> None:
    shown = repr(RemoteLogin(token="s3cret", user="eve", password="pass1234"))
    assert shown == "RemoteLogin('eve')"


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadLogin, match=r"none\.pem cannot be read"):
        RemoteLogin(ca=str(tmp_path / "none.pem")).tls()


def test_what_is_around_a_secret_is_left_out_as_the_server_does() -> None:
    assert login_of(None, {"RAYMIRROR_TOKEN": " t0k\u20acn\r\n"}).headers == {"Authorization": "Bearer t0k€n".encode()}
    assert login_of(None, {"RAYMIRROR_USER": "eve\n", "RAYMIRROR_PASSWORD": "pass\n"}).password == "pass"


@pytest.mark.parametrize("token", ["s3cret\r\nX-Evil: 1", "s3cret\nmore", "s3\x00cret"])
def test_a_token_that_no_header_can_have_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(BadLogin, match="the token of RAYMIRROR_TOKEN has a character") as refused:
        login_of(None, {"RAYMIRROR_TOKEN": token})
    assert "s3" not in str(refused.value)
