"""Logins to MSK, field by field as AWS's signer makes them. No MSK was asked: none can run here."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from engine.security.aws.credentials import find_keys, region_of
from engine.security.aws.msk_iam import MskIamLogin, payload
from engine.security.aws.sigv4 import AwsKeys, signed_query
from engine.security.mechanisms import java_login, read_login
from engine.security.oauth.msk_handler import msk_token
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings

HOST, REGION = "b-1.c.kafka.us-east-1.amazonaws.com", "us-east-1"
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_MS = int(TIME.timestamp() * 1000) + 678
KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TEMPORARY = AwsKeys(KEYS.access_key, KEYS.secret_key, "session/token+=")
# What botocore's SigV4QueryAuth signs for these keys, host and time.
SIGNATURE = "40011e51f3fa21fc0da262549849ab0370445b5c5c200ca35ffa77d72a24b3c0"
TEMPORARY_SIGNATURE = "df048c83dcc3fde7753f89834970aa5c6e7455570528091268f5492af3e2cebe"


def test_the_message_has_the_fields_of_msk() -> None:
    assert json.loads(payload(KEYS, HOST, REGION, NOW_MS)) == {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "raymirror",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIDEXAMPLE/20260102/us-east-1/kafka-cluster/aws4_request",
        "x-amz-date": "20260102T030405Z",
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-signature": SIGNATURE,
    }
    temporary = json.loads(payload(TEMPORARY, HOST, REGION, NOW_MS))
    assert (temporary["x-amz-security-token"], temporary["x-amz-signature"]) == ("session/token+=", TEMPORARY_SIGNATURE)


@pytest.mark.local
@pytest.mark.parametrize("keys", [KEYS, TEMPORARY])
def test_botocore_signs_the_same(keys: AwsKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = pytest.importorskip("botocore.auth")
    monkeypatch.setattr(auth, "get_current_datetime", lambda: TIME.replace(tzinfo=None))
    own = pytest.importorskip("botocore.credentials").Credentials(keys.access_key, keys.secret_key, keys.token or None)
    action = {"Action": "kafka-cluster:Connect"}
    request = pytest.importorskip("botocore.awsrequest").AWSRequest(method="GET", url=f"https://{HOST}/", params=action)
    auth.SigV4QueryAuth(own, "kafka-cluster", REGION, expires=900).add_auth(request)
    signed = dict(parse_qsl(urlsplit(request.prepare().url).query))
    assert signed == signed_query(keys, HOST, REGION, NOW_MS)


def test_a_token_of_oauthbearer_is_the_signed_address() -> None:
    token = msk_token(TEMPORARY, REGION, NOW_MS)
    assert "=" not in token.value
    address = urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    assert (address.scheme, address.netloc, address.path) == ("https", "kafka.us-east-1.amazonaws.com", "/")
    query = dict(parse_qsl(address.query))
    assert query.pop("User-Agent") == "raymirror"
    assert query == signed_query(TEMPORARY, "kafka.us-east-1.amazonaws.com", REGION, NOW_MS)
    assert token.expires_ms - token.issued_ms == 900_000
    assert token.issued_ms == NOW_MS // 1000 * 1000


def test_an_answer_of_a_broker_that_is_none_of_msk() -> None:
    login = MskIamLogin(lambda: KEYS, {})
    exchange = login.exchange(HOST)
    assert json.loads(next(exchange))["host"] == HOST
    with pytest.raises(StopIteration):
        exchange.send(b'{"version":"2020_10_22","request-id":"x"}')
    exchange = login.exchange(HOST)
    next(exchange)
    with pytest.raises(LoginFailed, match="is it a broker of MSK"):
        exchange.send(b"")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "us-east-1"),
        ("boot-x.c3.kafka-serverless.eu-central-1.amazonaws.com", "eu-central-1"),
        ("b-2.m.x.c2.kafka.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-2.m.x.c2.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("vpce-0a.kafka.ap-southeast-2.vpce.amazonaws.com", "ap-southeast-2"),
    ],
)
def test_the_name_of_a_broker_tells_its_region(host: str, region: str) -> None:
    assert region_of(host, {}) == region


@pytest.mark.parametrize(
    "host", ["my-kafka-1.example.com", "us-prod-1.internal", "b-1.us-east-1.amazonaws.com.example"]
)
def test_a_name_that_is_not_aws_s_tells_no_region(host: str, aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert region_of(host, {}) == "eu-west-1"


def settings(options: str = "", **more: str) -> SecuritySettings:
    jaas = f"software.amazon.msk.auth.iam.IAMLoginModule required {options};"
    return SecuritySettings({"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": jaas, **more})


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let only a file of profiles have credentials."""
    pytest.importorskip("botocore")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id=D\naws_secret_access_key=d\n[own]\naws_access_key_id=O\naws_secret_access_key=o\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return file


@pytest.mark.local
@pytest.mark.parametrize(("options", "key"), [("", "D"), ('awsProfileName="own"', "O")])
def test_credentials_are_those_of_the_chain_or_of_a_profile(aws: Path, options: str, key: str) -> None:
    message: dict[str, Any] = json.loads(next(read_login(settings(options)).exchange(HOST)))
    assert message["x-amz-credential"].startswith(f"{key}/")


@pytest.mark.local
def test_what_is_not_there_is_named(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoginFailed, match=r"The config profile \(nobody\) could not be found"):
        read_login(settings('awsProfileName="nobody"')).exchange(HOST)
    with pytest.raises(LoginFailed, match=r"no AWS region is known for kafka\.corp"):
        read_login(settings()).exchange("kafka.corp")
    for variable, region in (("AWS_DEFAULT_REGION", "eu-west-3"), ("AWS_REGION", "eu-west-4")):
        monkeypatch.setenv(variable, region)
        message = json.loads(next(read_login(settings()).exchange("kafka.corp")))
        assert message["x-amz-credential"].split("/")[2] == region
    aws.unlink()
    with pytest.raises(LoginFailed, match="AWS has no credentials in any place"):
        read_login(settings()).exchange(HOST)


@pytest.mark.local
def test_a_role_is_assumed_with_its_own_options(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Sts:
        def assume_role(self, **words: Any) -> dict[str, Any]:
            asked.append(words)
            named = {"AccessKeyId": "R", "SecretAccessKey": "r", "SessionToken": "t"}
            return {"Credentials": {**named, "Expiration": datetime(2090, 1, 1, tzinfo=UTC)}}

    session = pytest.importorskip("botocore.session").Session
    monkeypatch.setattr(session, "create_client", lambda _self, name, **_words: Sts())
    role = 'awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="me" awsRoleExternalId="x" awsStsRegion="us-east-1"'
    found = find_keys(dict(pair.split("=") for pair in role.replace('"', "").split()))()
    assert (found.access_key, found.token) == ("R", "t")
    assert asked == [{"RoleArn": "arn:aws:iam::1:role/r", "RoleSessionName": "me", "ExternalId": "x"}]


def test_what_no_login_has_here_is_refused() -> None:
    with pytest.raises(BadSecurity, match="names a Java class, which cannot run here; set AWS_REGION"):
        find_keys({"awsMskRegionProvider": "com.acme.Regions"})
    with pytest.raises(BadSecurity, match="which Spark's Java client lacks"):
        java_login(settings())
    assert "EXAMPLEKEY" not in repr(KEYS)
