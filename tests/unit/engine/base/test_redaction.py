"""Secrets in texts: known values in each spelling, what names give away, and what must stay readable."""

import json
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.redaction import (
    HIDDEN,
    LEAST,
    error_text,
    own_redacted,
    redacted,
    remember_environment,
    remember_secret,
    remember_token,
)
from tests.harness.known_secrets import forget_secrets

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ\n-----END PRIVATE KEY-----"


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    forget_secrets()
    yield
    forget_secrets()


@given(st.text(min_size=LEAST, max_size=40).filter(lambda text: len(text.strip()) >= LEAST), st.text(), st.text())
def test_a_known_value_is_hidden_in_each_spelling(secret: str, before: str, after: str) -> None:
    forget_secrets()
    remember_secret(secret)
    value = secret.strip()
    urls = quote(value, safe=""), quote(value), quote_plus(value)
    escaped = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]
    told = repr(value.encode())[2:-1], value.replace("\\", "\\\\"), value.replace('"', '\\"')
    spellings = value, *urls, *escaped, *told, b64encode(value.encode()).decode()
    for spelled in spellings:
        assert HIDDEN in own_redacted(f"{before} {spelled} {after}")
        assert own_redacted(spelled) == HIDDEN


def test_a_short_value_is_not_looked_for() -> None:
    remember_secret("abc")
    assert own_redacted("abc abcd") == "abc abcd"


def test_a_private_key_is_hidden_whole_and_by_its_lines() -> None:
    assert redacted(f"cannot parse {KEY} here") == f"cannot parse {HIDDEN} here"
    assert redacted(f"cannot parse {KEY[:40]}") == f"cannot parse {HIDDEN}"
    remember_secret(KEY)
    assert redacted("bad base64 at MIIEvQIBADANBgkqhkiG9w0BAQEFAASC") == f"bad base64 at {HIDDEN}"
    assert "MIIE" not in redacted(KEY.replace("\n", "\\n"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password=hunter2, next", f"password={HIDDEN}, next"),
        ('username="me" password="hun ter2";', f'username="me" password={HIDDEN};'),
        (r"password=\"hun ter2\" required", f"password={HIDDEN} required"),
        ('{"client_secret": "hunter2", "a": 1}', f'{{"client_secret": {HIDDEN}, "a": 1}}'),
        ("Authorization: Bearer hunter2", f"Authorization: {HIDDEN}"),
        ("password=hunter2,3;4 next", f"password={HIDDEN} next"),
        (r"password: 'it\'s me' next", f"password: {HIDDEN} next"),
        ("https://me:hunter2@host/x", f"https://{HIDDEN}@host/x"),
        ("https://me:hun@ter2@host/x", f"https://{HIDDEN}@host/x"),
        ("https://hunter2@host/x", f"https://{HIDDEN}@host/x"),
        ("abfss://bucket@account/x", "abfss://bucket@account/x"),
        ("https://host/x?to=me@host", "https://host/x?to=me@host"),
        ("basic.auth.user.info=me:hunter2", f"basic.auth.user.info={HIDDEN}"),
        ("ssl.key.passphrase: hunter2", f"ssl.key.passphrase: {HIDDEN}"),
        ("nothing here: at all = fine", "nothing here: at all = fine"),
    ],
)
def test_what_stands_behind_a_telling_name_is_hidden(text: str, left: str) -> None:
    assert redacted(text) == left


def test_what_raymirror_says_of_a_setting_stays() -> None:
    text = "mm2.properties:5: A.ssl.key.password: wrong password; give the one of the key"
    assert own_redacted(text) == text
    remember_secret("hunter2")
    assert own_redacted(f"{text} hunter2") == f"{text} {HIDDEN}"


def test_what_stands_in_the_environment_is_hidden_but_not_where_secrets_are() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7",
        "RAY_AUTH_TOKEN_PATH": "/home/me/token",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hunter22,x=y",
        "HOME": "/home/me",
    }
    remember_environment(environment)
    text = "wJalrXUtnFEMI AKIAIOSFODNN7 /home/me/token hunter22"
    assert own_redacted(text) == f"{HIDDEN} AKIAIOSFODNN7 /home/me/token {HIDDEN}"


def test_an_error_without_a_text_has_its_name() -> None:
    assert error_text(TimeoutError()) == "TimeoutError"
    assert error_text(ValueError("token=hunter2")) == f"token={HIDDEN}"


_UNHANDLED = """
import asyncio, logging, threading
from engine.base.redaction import hide_in_tracebacks, remember_secret
remember_secret("hunter2")
hide_in_tracebacks()
logging.getLogger("a library").warning("it says %s", "hunter2")
def fail():
    try:
        raise ValueError("hunter2 in a cause")
    except ValueError as error:
        raise RuntimeError("password=other of the library") from error
thread = threading.Thread(target=fail, name="worker")
thread.start()
thread.join()
fail()
"""


@pytest.mark.local
def test_what_python_prints_of_errors_that_nobody_handles() -> None:
    done = subprocess.run([sys.executable, "-c", _UNHANDLED], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    for line in ("it says [hidden]", "Exception in thread worker:", "ValueError: [hidden] in a cause"):
        assert line in done.stderr
    assert done.stderr.count("RuntimeError: password=[hidden] of the library") == 2
    assert "hunter2\n" not in done.stderr


def test_the_oldest_values_are_forgotten_and_the_newest_hidden() -> None:
    for number in range(2000):
        remember_secret(f"secret-{number:04}")
    assert own_redacted("secret-0000 secret-1999") == f"secret-0000 {HIDDEN}"


def test_tokens_displace_no_password() -> None:
    """A process that gets a token every 30 s has many before the night is over."""
    remember_secret("hunter2")
    remember_secret(KEY)
    for number in range(2000):
        remember_token(f"token-{number:04}")
    assert own_redacted("hunter2 token-0000 token-1999") == f"{HIDDEN} token-0000 {HIDDEN}"
    assert own_redacted("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC") == HIDDEN


def test_a_value_that_is_heard_of_again_is_not_the_oldest() -> None:
    for number in range(900):
        remember_secret(f"secret-{number:04}")
    remember_secret("secret-0000")
    for number in range(900, 1100):
        remember_secret(f"secret-{number:04}")
    assert own_redacted("secret-0000 secret-0001") == f"{HIDDEN} secret-0001"


def test_values_may_come_from_many_threads() -> None:
    def learn(number: int) -> None:
        for count in range(20):
            remember_secret(f"value-{number}-{count:02}")

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert own_redacted("value-0-00 value-3-19") == f"{HIDDEN} {HIDDEN}"
