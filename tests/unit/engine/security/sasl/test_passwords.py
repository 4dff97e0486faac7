"""PLAIN and SCRAM: the messages of the RFCs, and a broker that cannot prove that it knows the password."""

import pytest

from engine.security.sasl.login import Exchange, LoginFailed
from engine.security.sasl.plain import PlainLogin
from engine.security.sasl.scram import ScramLogin

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"n,,n=user,r={NONCE}"
SERVER_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(password: str = "pencil") -> Exchange:
    return ScramLogin("SCRAM-SHA-256", "user", password, nonce=lambda: NONCE).exchange("h")


def ends(exchange: Exchange, answer: str) -> bool:
    try:
        exchange.send(answer.encode())
    except StopIteration:
        return True
    return False


def test_plain_is_one_message() -> None:
    exchange = PlainLogin("ürs", "p w").exchange("h")
    assert next(exchange) == "\0ürs\0p w".encode()
    assert ends(exchange, "")


def test_scram_as_in_the_rfc() -> None:
    exchange = scram()
    assert next(exchange) == FIRST.encode()
    assert exchange.send(SERVER_FIRST.encode()) == FINAL.encode()
    assert ends(exchange, SERVER_FINAL)


def test_a_name_is_quoted_and_a_delegation_token_says_so() -> None:
    login = ScramLogin("SCRAM-SHA-512", "a=b,c", "p", is_token=True, nonce=lambda: "N")
    assert next(login.exchange("h")) == b"n,,n=a=3Db=2Cc,r=N,tokenauth=true"
    assert login.user == "", "the owner of the token is who logs in"


def hear(exchange: Exchange, *answers: str) -> None:
    for answer in answers:
        exchange.send(answer.encode())


@pytest.mark.parametrize(
    ("first", "final", "why"),
    [
        (SERVER_FIRST, "v=AAAA", "its own proof is wrong"),
        (SERVER_FIRST, "e=other-error", "its own proof is wrong"),
        (SERVER_FIRST.replace(NONCE, "other"), "", "a message that is not SCRAM's"),
        (SERVER_FIRST.replace("i=4096", "i=100"), "", "asks for 100 rounds of SCRAM, fewer than 4096"),
        (SERVER_FIRST.replace("i=4096", "i=99999999999"), "", "a message that is not SCRAM's"),
        (SERVER_FIRST.replace("s=W", "s=!"), "", "a message that is not SCRAM's"),
        ("", "", "a message that is not SCRAM's"),
    ],
)
def test_a_broker_that_is_not_the_right_one(first: str, final: str, why: str) -> None:
    exchange = scram()
    next(exchange)
    with pytest.raises(LoginFailed, match=why) as caught:
        hear(exchange, first, final)
    assert not caught.value.may_pass
