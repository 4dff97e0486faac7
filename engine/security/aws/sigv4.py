"""Signs the request that MSK accepts as a login: AWS Signature Version 4 in the query, as a pure function.

The algorithm is thirty lines; AWS's signer package for it (aws-msk-iam-sasl-signer-python) would bring boto3 and makes
tokens for OAUTHBEARER only. Sources: AWS's "Authenticating Requests: Using Query Parameters", the README of
aws-msk-iam-auth.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

ALGORITHM, SERVICE, ACTION = "AWS4-HMAC-SHA256", "kafka-cluster", "kafka-cluster:Connect"
EXPIRES_S = 900
_SIGNED_HEADERS = "host"
_NO_CONTENT = hashlib.sha256(b"").hexdigest()


class AwsKeys(msgspec.Struct, frozen=True):
    """An access key, its secret, and the token of a session if it is a temporary one (else empty)."""

    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "AwsKeys()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


def signed_query(keys: AwsKeys, host: str, region: str, now_ms: int) -> dict[str, str]:
    """Return the parameters of a signed GET of `https://HOST/`, not encoded, in their order."""
    time = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{time[:8]}/{region}/{SERVICE}/aws4_request"
    query = {
        "Action": ACTION,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": time,
        "X-Amz-Expires": str(EXPIRES_S),
        **({"X-Amz-Security-Token": keys.token} if keys.token else {}),
        "X-Amz-SignedHeaders": _SIGNED_HEADERS,
    }
    asked = "\n".join(["GET", "/", encoded(query), f"host:{host}", "", _SIGNED_HEADERS, _NO_CONTENT])
    text = "\n".join([ALGORITHM, time, scope, hashlib.sha256(asked.encode()).hexdigest()])
    key = f"AWS4{keys.secret_key}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    return {**query, "X-Amz-Signature": _mac(key, text).hex()}


def encoded(query: Mapping[str, str]) -> str:
    """Return parameters as AWS's canonical query: sorted, and everything but unreserved characters encoded."""
    return "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
