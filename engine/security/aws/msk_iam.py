"""AWS_MSK_IAM: one message with a signature, and an answer with the id of the request (aws-msk-iam-auth's README)."""

import json

from engine.base.clock import wall_ms
from engine.security.aws.credentials import Find, find_keys, region_of
from engine.security.aws.sigv4 import AwsKeys, signed_query
from engine.security.sasl.jaas import LoginEntry
from engine.security.sasl.login import Exchange, LoginFailed
from engine.security.settings import SecuritySettings

_VERSION = "2020_10_22"
USER_AGENT = "raymirror"


class MskIamLogin:
    """An AWS identity; each login is signed for the broker that it is for."""

    mechanism = "AWS_MSK_IAM"
    user = ""
    """The name of the principal is that of the identity, which only AWS knows."""

    def __init__(self, find: Find, options: dict[str, str]) -> None:
        self._find = find
        self._options = options

    def exchange(self, host: str) -> Exchange:
        """Find the credentials and sign. Raises LoginFailed."""
        return _messages(payload(self._find(), host, region_of(host, self._options), wall_ms()))


def read_msk_iam(_settings: SecuritySettings, entry: LoginEntry) -> MskIamLogin:
    """Return the login of a login module's options. Raises BadSecurity."""
    return MskIamLogin(find_keys(entry.options), entry.options)


def payload(keys: AwsKeys, host: str, region: str, now_ms: int) -> bytes:
    """Return the message: the signed parameters by their names in lower case, not encoded, as JSON."""
    query = signed_query(keys, host, region, now_ms)
    return json.dumps(
        {
            "version": _VERSION,
            "host": host,
            "user-agent": USER_AGENT,
            **{name.lower(): value for name, value in query.items()},
        }
    ).encode()


def _messages(message: bytes) -> Exchange:
    answer = yield message
    if not answer:
        raise LoginFailed("the broker's answer to AWS_MSK_IAM is empty; is it a broker of MSK?")
