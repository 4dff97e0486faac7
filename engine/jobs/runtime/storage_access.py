"""Says how to reach a storage in a bucket: one answer for Spark (Hadoop's S3A), pyarrow and deltalake.

Endpoint, region and profile come from the variables and files that every S3 client reads (`docs/object-storage.md`),
not from keys of raymirror: credentials must be in the environment of each node anyway, and commands that take a bare
`--storage URI` need the same answer.

Credentials are not read here. Each client finds them by itself, by the usual chain, in the process that uses them. So
they are in no log, no Ray record and no setting of Spark, and those of a role are renewed.
"""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from engine.base.errors import MirrorError

CONNECT_S, ANSWER_S = 5, 30
"""Seconds to connect to a store, and to wait for bytes of an answer."""
TRIES = 4
"""Tries per request; the pauses between them grow. A store that is away for longer fails the caller, which reports it
and starts again later."""
_S3 = "s3a://"
_NO_REGION = "us-east-1"
"""The region in signatures for a store that is not Amazon's: such stores accept it, or name theirs."""
_STATIC = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_OTHER_CLIENTS_FILE, _JAVA_FILE = "AWS_SHARED_CREDENTIALS_FILE", "AWS_CREDENTIAL_PROFILES_FILE"


class BadStorageAccess(MirrorError):
    """The environment cannot lead to a store: what is wrong, and what would be right. It repeats no secret."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"raymirror.storage: {self.wrong}; {self.right}"


class S3Access(msgspec.Struct, frozen=True):
    """Where a store is. `endpoint`: a URL without a path, empty for Amazon's; `region`: empty if nothing names it."""

    endpoint: str = ""
    region: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether the store is asked without TLS."""
        return self.endpoint.startswith("http:")

    @property
    def host(self) -> str:
        """The endpoint without its scheme; empty for Amazon's own."""
        return urlsplit(self.endpoint).netloc


def is_s3(uri: str) -> bool:
    """Whether a storage URI names a bucket of S3's protocol."""
    return uri.startswith(_S3)


def bucket_of(uri: str) -> str:
    """Return the bucket of an `s3a:` URI."""
    return uri.removeprefix(_S3).partition("/")[0]


def s3_access(environment: Mapping[str, str]) -> S3Access:
    """Return where a store is, from an environment and the profile that it names. Raises BadStorageAccess."""
    profile = _profile(environment)
    endpoint = _first(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or profile.get("endpoint_url", "")
    region = _first(environment, "AWS_REGION", "AWS_DEFAULT_REGION") or profile.get("region", "")
    if environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        endpoint = ""
    if endpoint:
        endpoint = _checked(endpoint)
    return S3Access(endpoint=endpoint, region=region or (_NO_REGION if endpoint else ""))


def access_of(uri: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the storage options of `deltalake` for a storage URI, without credentials. Raises BadStorageAccess.

    `deltalake` writes each commit with If-None-Match, so the store must let exactly one of several writers win.
    """
    if not is_s3(uri):
        return {}
    access = s3_access(environment)
    options = {
        "aws_conditional_put": "etag",
        "connect_timeout": f"{CONNECT_S}s",
        "timeout": f"{ANSWER_S}s",
        "max_retries": str(TRIES),
        "backoff_config.init_backoff": "1s",
        "backoff_config.max_backoff": "8s",
        "retry_timeout": f"{TRIES * ANSWER_S}s",
    }
    if not _has_static(environment):
        # Without this, deltalake looks for credentials only in the environment if an endpoint is set. With it, it also
        # asks the machine for a region, which outside of Amazon's cloud takes ten seconds and more.
        options["aws_force_credential_load"] = "true"
    if access.region:
        options["aws_region"] = access.region
    if access.endpoint:
        options["aws_endpoint_url"] = access.endpoint
    if access.is_plain:
        options["aws_allow_http"] = "true"
    return options


def hadoop_conf(uri: str, scratch: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return Spark's settings for a storage URI, without credentials; none for another storage than `s3a:`.

    `scratch`: a folder for blocks that wait to be sent. Raises BadStorageAccess.
    """
    if not is_s3(uri):
        return {}
    access = s3_access(environment)
    _refuse_half_known_file(environment)
    conf = {
        # Environment, token of a web identity, profile, container, instance: the chain of the other two clients.
        "aws.credentials.provider": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
        # With `delete` S3A deletes the markers of all parent folders after each file, and versitygw then answers a
        # listing of a checkpoint only after minutes.
        "directory.marker.retention": "keep",
        "buffer.dir": str(scratch / "s3a"),
        "multipart.size": "16M",
        "fast.upload.active.blocks": "2",
        # The defaults, 20 tries in each of 7 of 200 s of silence, would let a job hang without a word.
        "connection.establish.timeout": str(CONNECT_S * 1000),
        "connection.timeout": str(ANSWER_S * 1000),
        # Tries inside of Amazon's client, and then pauses of S3A that double: half a minute in all.
        "attempts.maximum": "2",
        "retry.limit": str(TRIES + 1),
        "retry.interval": "1s",
        "retry.throttle.limit": str(2 * TRIES),
        "retry.throttle.interval": "500ms",
    }
    if access.endpoint:
        conf |= {"endpoint": access.endpoint, "path.style.access": "true"}
        conf["connection.ssl.enabled"] = "false" if access.is_plain else "true"
    if access.region:
        conf["endpoint.region"] = access.region
    return {
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in conf.items()},
        # A rename is a copy in S3. Version 2 needs one per file instead of two. Its results appear file by file, but
        # raymirror counts none before its own commit, and a repeated task writes the same names.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }


def _has_static(environment: Mapping[str, str]) -> bool:
    return all(environment.get(name) for name in _STATIC)


def _first(environment: Mapping[str, str], *names: str) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _checked(endpoint: str) -> str:
    if "@" in endpoint:
        raise BadStorageAccess(
            "the endpoint of the store contains a user name or a password",
            "remove them from AWS_ENDPOINT_URL: credentials go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise BadStorageAccess(
            f"{endpoint.partition('?')[0]!r} is not the endpoint of a store",
            "write AWS_ENDPOINT_URL as a URL without a path, e.g. https://s3.example.org:9000",
        )
    return f"{parts.scheme}://{parts.netloc}"


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the profile in the shared configuration file; empty without a file or a profile."""
    home = environment.get("HOME", "")
    named = environment.get("AWS_CONFIG_FILE") or (f"{home}/.aws/config" if home else "")
    path = Path(named)
    if not named or not path.is_file():
        return {}
    name = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    parser = configparser.RawConfigParser(strict=False, default_section="no section of this name")
    try:
        parser.read_string(path.read_text())
    except (OSError, ValueError, configparser.Error) as error:
        # The text of a parser's error repeats lines of the file, which may be secret.
        reason = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
        raise BadStorageAccess(f"{path} cannot be read as a configuration of AWS ({reason})", "mend it") from None
    section = name if name == "default" and parser.has_section(name) else f"profile {name}"
    return dict(parser.items(section)) if parser.has_section(section) else {}


def _refuse_half_known_file(environment: Mapping[str, str]) -> None:
    """Refuse a file of credentials that Java's client would not read: it knows the file by another variable."""
    named = environment.get(_OTHER_CLIENTS_FILE)
    if named and environment.get(_JAVA_FILE) != named and not _has_static(environment):
        raise BadStorageAccess(
            f"Spark does not read {_OTHER_CLIENTS_FILE}",
            f"set {_JAVA_FILE} to the same path too, on every node that runs Spark",
        )
