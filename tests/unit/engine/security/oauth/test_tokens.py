"""Tokens, assertions and the message of OAUTHBEARER: what they hold, what is refused, and that nothing shows them."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from engine.base.clock import wall_ms
from engine.security.oauth.assertion import read_assertion
from engine.security.oauth.bearer import BearerLogin
from engine.security.oauth.keeper import TokenKeeper
from engine.security.oauth.refresh import RefreshRules
from engine.security.oauth.token import Token, claims_of, encode, read_token, unsigned
from engine.security.oauth.unsecured import UnsecuredTokens
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings
from tests.harness.token_server import decoded

CANARY = "c4n4ry"
BEGIN = "sasl.oauthbearer.assertion."


def jwt(**claims: Any) -> str:
    return f"{unsigned({'alg': 'none'}, claims)}.{encode(b'signature')}"


def test_a_jwt_says_who_and_until_when() -> None:
    found = read_token(f" {jwt(sub='me', exp=100, iat=40.5)}\n", 0)
    assert (found.subject, found.issued_ms, found.expires_ms) == ("me", 40_500, 100_000)
    assert read_token(jwt(azp="you", exp=100), 7000, "azp") == Token(jwt(azp="you", exp=100), "you", 7000, 100_000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CANARY, "has three parts"),
        (f"a.{CANARY}.c", "its claims cannot be read"),
        (f"a.{encode(b'[1]')}.{CANARY}", "its claims cannot be read"),
        (jwt(sub=CANARY), "has no time of expiry"),
        (jwt(exp=True, sub=CANARY), "has no time of expiry"),
        (jwt(exp=float("inf"), sub=CANARY), "has no time of expiry"),
        (jwt(exp=float("nan"), sub=CANARY), "has no time of expiry"),
        (jwt(exp=10**400, sub=CANARY), "has no time of expiry"),
        (f"a.{encode(b'[' * 100_000)}.{CANARY}", "its claims cannot be read"),
        (jwt(exp=1), "has no claim sub"),
        (jwt(exp=1, sub=" "), "has no claim sub"),
    ],
)
def test_what_is_no_token(text: str, why: str) -> None:
    with pytest.raises(LoginFailed, match=why) as caught:
        read_token(text, 0)
    assert CANARY not in str(caught.value)


def test_a_time_of_issue_that_no_clock_shows_is_now() -> None:
    assert read_token(jwt(sub="me", exp=100, iat=float("nan")), 7000).issued_ms == 7000


def login(**extensions: str) -> BearerLogin:
    def fetch() -> Token:
        return Token("abc", "me", wall_ms(), wall_ms() + 60_000)

    return BearerLogin(TokenKeeper(fetch, RefreshRules()), extensions)


def test_the_message_has_the_token_and_the_extensions() -> None:
    exchange = login(logicalCluster="lkc-1", identityPoolId="pool-1").exchange("h")
    assert next(exchange) == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01identityPoolId=pool-1\x01\x01"
    with pytest.raises(StopIteration):
        exchange.send(b"")
    refused = login().exchange("h")
    assert next(refused) == b"n,,\x01auth=Bearer abc\x01\x01"
    assert refused.send(b'{"status":"invalid_token"}') == b"\x01", "so the broker ends the login with its reason"


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": f"ü{CANARY}"}, {"": "x"}])
def test_extensions_that_no_broker_reads(extensions: dict[str, str]) -> None:
    with pytest.raises(BadSecurity, match="has an extension that no broker reads") as caught:
        login(**extensions)
    assert CANARY not in str(caught.value)


def test_unsecured_tokens_of_tests() -> None:
    make = UnsecuredTokens(
        {
            "unsecuredLoginStringClaim_sub": "alice",
            "unsecuredLoginNumberClaim_n": "1.5",
            "unsecuredLoginListClaim_scope": "|one|two",
            "unsecuredLoginLifetimeSeconds": "60",
            "unsecuredLoginExtension_x": "y",
        }
    )
    found = make()
    claims = claims_of(found.value)
    assert found.value.endswith(".")
    assert (claims["sub"], claims["n"], claims["scope"]) == ("alice", 1.5, ["one", "two"])
    assert found.expires_ms - found.issued_ms == 60_000
    assert claims["exp"] == found.expires_ms / 1000


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({}, "names nobody: it has no unsecuredLoginStringClaim_sub"),
        ({"clientId": "x"}, "names nobody"),
        (
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_exp": "1"},
            "sets one of the claims iat, exp",
        ),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": CANARY}, "that is no number"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": CANARY}, "that is no number"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "inf"}, "that is no number"),
    ],
)
def test_unsecured_tokens_that_cannot_be(options: dict[str, str], wrong: str) -> None:
    with pytest.raises(BadSecurity, match=wrong) as caught:
        UnsecuredTokens(options)
    assert CANARY not in str(caught.value)


def written(path: Path, key: Any, password: str | None = None) -> str:
    locked = (
        serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password.encode())
    )
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    return str(path)


def signing(path: str, **more: str) -> SecuritySettings:
    named = {f"{BEGIN}{name.replace('_', '.')}": value for name, value in more.items()}
    return SecuritySettings({f"{BEGIN}private.key.file": path, **named})


def test_an_assertion_by_rsa_has_the_claims_of_keys_template_and_clock(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k1"}, "payload": {"iss": "of the template", "x": [1]}}))
    settings = signing(
        written(tmp_path / "key.pem", key, "pass"),
        private_key_passphrase="pass",
        claim_aud="https://issuer.test",
        claim_iss="of the key",
        claim_sub="me",
        claim_exp_seconds="100",
        claim_nbf_seconds="10",
        claim_jti_include="true",
        template_file=str(template),
    )
    make = read_assertion(settings)
    head, _, signature = make().rpartition(".")
    key.public_key().verify(decoded(signature), head.encode(), padding.PKCS1v15(), hashes.SHA256())
    header, payload = (json.loads(decoded(part)) for part in head.split("."))
    assert header == {"kid": "k1", "alg": "RS256", "typ": "JWT"}
    assert (payload["aud"], payload["iss"], payload["sub"], payload["x"]) == (
        "https://issuer.test",
        "of the template",
        "me",
        [1],
    )
    assert (payload["exp"] - payload["iat"], payload["iat"] - payload["nbf"]) == (100, 10)
    again = json.loads(decoded(make().split(".")[1]))
    assert again["jti"] != payload["jti"]


def test_an_assertion_by_an_elliptic_curve(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    make = read_assertion(signing(written(tmp_path / "key.pem", key), algorithm="ES256"))
    head, _, signature = make().rpartition(".")
    numbers = decoded(signature)
    assert len(numbers) == 64
    der = encode_dss_signature(int.from_bytes(numbers[:32], "big"), int.from_bytes(numbers[32:], "big"))
    key.public_key().verify(der, head.encode(), ec.ECDSA(hashes.SHA256()))


def test_a_key_and_an_assertion_that_are_rotated(tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    path.write_text("one\n")
    make = read_assertion(SecuritySettings({f"{BEGIN}file": str(path)}))
    assert make() == "one"
    path.write_text("two\n")
    assert make() == "two"
    path.unlink()
    with pytest.raises(LoginFailed, match=r"cannot read the file of sasl\.oauthbearer\.assertion\.file") as caught:
        make()
    assert caught.value.may_pass


def test_assertions_that_cannot_be_signed(tmp_path: Path) -> None:
    with pytest.raises(BadSecurity, match=r"private\.key\.file: missing"):
        read_assertion(SecuritySettings({}))
    with pytest.raises(BadSecurity, match=r"use RS256 or ES256"):
        read_assertion(signing("x", algorithm="HS256"))
    curve = written(tmp_path / "curve.pem", ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(LoginFailed, match="cannot sign by RS256"):
        read_assertion(signing(curve))()
    with pytest.raises(
        LoginFailed, match=r"is no private key in PEM, or sasl\.oauthbearer\.assertion\.private\.key\.passphrase"
    ):
        read_assertion(signing(written(tmp_path / "locked.pem", ec.generate_private_key(ec.SECP256R1()), "x")))()
