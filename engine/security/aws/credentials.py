"""Finds AWS credentials as AWS's own clients do, by `botocore`, with the options of MSK's Java library.

`botocore` alone, not boto3: it has every source of credentials (environment, profiles, web identity, containers, the
instance) and renews temporary ones. It is an optional package, because only logins to MSK need it.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any

from engine.base.redaction import remember_token
from engine.security.aws.sigv4 import AwsKeys
from engine.security.sasl.jaas import JAAS
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity

_PROFILE, _ROLE, _SESSION = "awsProfileName", "awsRoleArn", "awsRoleSessionName"
_EXTERNAL_ID, _STS_REGION, _REGION_CLASS = "awsRoleExternalId", "awsStsRegion", "awsMskRegionProvider"
_ROLE_KEYS = ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken")
_DEFAULT_SESSION, _GLOBAL = "raymirror", "aws-global"
_REGION = re.compile(
    r"(?:^|\.)(?P<region>[a-z]{2,4}(?:-[a-z]+){1,3}-\d+)\.(?:[a-z0-9.-]+\.)?"
    r"(?:amazonaws\.(?:com(?:\.cn)?|eu)|c2s\.ic\.gov|sc2s\.sgov\.gov)\.?\Z"
)
"""A host of AWS with its region; `my-kafka-1.example.com` is none (aws-msk-iam-auth: AuthenticationRequestParams)."""
_MOST_WORDS = 200

Find = Callable[[], AwsKeys]
"""Returns the present credentials; it may ask other servers. Raises LoginFailed."""


def find_keys(options: Mapping[str, str]) -> Find:
    """Return how the credentials of a login module are found. Raises BadSecurity."""
    if _REGION_CLASS in options:
        wrong = f"its option {_REGION_CLASS} names a Java class, which cannot run here"
        raise BadSecurity(JAAS, wrong, "set AWS_REGION if the names of the brokers do not tell the region")
    session = _session(options)
    lock = Lock()
    made: list[Any] = []

    def find() -> AwsKeys:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with lock:
                if not made:
                    made.append(_credentials(session, options))
            found = made[0].get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise LoginFailed(f"AWS gives no credentials: {str(error)[:_MOST_WORDS]}", may_pass=True) from None
        for secret in (found.secret_key, found.token or ""):
            remember_token(secret)
        return AwsKeys(found.access_key, found.secret_key, found.token or "")

    return find


def region_of(host: str, options: Mapping[str, str]) -> str:
    """Return the region of a broker, by its name or as AWS's clients find it. Raises LoginFailed."""
    named = _REGION.search(host.lower())
    if named is not None:
        return named["region"]
    found = _own_region(_session(options))
    if not found:
        raise LoginFailed(f"no AWS region is known for {host}: its name has none; set AWS_REGION")
    return found


def _own_region(session: Any) -> str:
    """Return the region of the environment or a profile; botocore reads one of AWS's two variables only."""
    return os.environ.get("AWS_REGION") or session.get_config_variable("region") or ""


def _session(options: Mapping[str, str]) -> Any:
    try:
        from botocore.session import Session
    except ImportError:
        right = "install it: pip install 'raymirror[msk]'"
        raise BadSecurity(JAAS, "logs in to MSK, for which the package botocore is missing", right) from None
    return Session(profile=options.get(_PROFILE))


def _credentials(session: Any, options: Mapping[str, str]) -> Any:
    """Return credentials that renew themselves: of a profile, of a role, or the first that AWS's chain finds."""
    found = _assumed(session, options) if _ROLE in options and _PROFILE not in options else session.get_credentials()
    if found is None:
        right = "set a profile, a role, or credentials as for every client of AWS"
        raise LoginFailed(f"AWS has no credentials in any place where its clients look; {right}")
    return found


def _assumed(session: Any, options: Mapping[str, str]) -> Any:
    from botocore.credentials import AssumeRoleCredentialFetcher, Credentials, DeferredRefreshableCredentials

    access, secret, token = (options.get(name) for name in _ROLE_KEYS)
    source = Credentials(access, secret, token) if access and secret else session.get_credentials()
    if source is None:
        return None
    extra = {"RoleSessionName": options.get(_SESSION, _DEFAULT_SESSION)}
    extra |= {"ExternalId": options[_EXTERNAL_ID]} if _EXTERNAL_ID in options else {}
    region = options.get(_STS_REGION) or _own_region(session) or _GLOBAL
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=partial(session.create_client, region_name=region),
        source_credentials=source,
        role_arn=options[_ROLE],
        extra_args=extra,
    )
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
