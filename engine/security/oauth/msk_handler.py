"""Tokens for MSK by OAUTHBEARER: a signed address (aws-msk-iam-auth: IAMOAuthBearerLoginCallbackHandler)."""

from engine.base.clock import wall_ms
from engine.security.aws.credentials import find_keys, region_of
from engine.security.aws.msk_iam import USER_AGENT
from engine.security.aws.sigv4 import EXPIRES_S, AwsKeys, encoded, signed_query
from engine.security.oauth.keeper import Fetch
from engine.security.oauth.token import Token, encode
from engine.security.sasl.jaas import JAAS, LoginEntry
from engine.security.settings import BadSecurity, SecuritySettings


def read_fetch(_settings: SecuritySettings, entry: LoginEntry) -> Fetch:
    """Return how tokens are made. Raises BadSecurity."""
    find = find_keys(entry.options)

    def fetch() -> Token:
        return msk_token(find(), region_of("", entry.options), wall_ms())

    return fetch


def msk_token(keys: AwsKeys, region: str, now_ms: int) -> Token:
    """Return a token: the address with its signature, and then the name of the client, which is not signed."""
    host = f"kafka.{region}.amazonaws.com"
    address = f"https://{host}/?{_in_order(signed_query(keys, host, region, now_ms))}&User-Agent={USER_AGENT}"
    signed_ms = now_ms // 1000 * 1000
    return Token(encode(address.encode()), "", signed_ms, signed_ms + EXPIRES_S * 1000)


def _in_order(query: dict[str, str]) -> str:
    return "&".join(encoded({name: value}) for name, value in query.items())


def java_settings(_settings: SecuritySettings, _entry: LoginEntry) -> dict[str, str]:
    """Refuse: Spark's Java client has no library of AWS's. Raises BadSecurity."""
    wrong = "logs in to MSK by IAM, for which Spark's Java client lacks AWS's library"
    raise BadSecurity(JAAS, wrong, "run without raymirror.spark, or give Spark's jobs a SCRAM login")
