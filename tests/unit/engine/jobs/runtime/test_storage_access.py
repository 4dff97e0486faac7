"""How a bucket is reached: endpoint and region from an environment and its profile, the same for every client."""

from pathlib import Path

import pytest

from engine.jobs.runtime.storage_access import BadStorageAccess, S3Access, access_of, bucket_of, hadoop_conf, s3_access

URI = "s3a://bucket/raymirror/history"
PLAIN = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7070/"}
SECRETS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "geheim", "AWS_SESSION_TOKEN": "token"}


def config(folder: Path, text: str) -> dict[str, str]:
    (folder / ".aws").mkdir()
    (folder / ".aws" / "config").write_text(text)
    return {"HOME": str(folder)}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, S3Access()),
        ({"AWS_REGION": "eu-west-1"}, S3Access(region="eu-west-1")),
        ({"AWS_DEFAULT_REGION": "eu-west-2", "AWS_REGION": ""}, S3Access(region="eu-west-2")),
        (PLAIN, S3Access(endpoint="http://127.0.0.1:7070", region="us-east-1")),
        (
            {
                "AWS_ENDPOINT_URL": "https://all:1",
                "AWS_ENDPOINT_URL_S3": "https://s3.example.org",
                "AWS_REGION": "here",
            },
            S3Access(endpoint="https://s3.example.org", region="here"),
        ),
        ({**PLAIN, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, S3Access()),
    ],
)
def test_variables_say_where_a_store_is(environment: dict[str, str], expected: S3Access) -> None:
    assert s3_access(environment) == expected


def test_what_no_variable_names_comes_from_the_profile(tmp_path: Path) -> None:
    text = """[default]
region = eu-north-1
[profile lab]
endpoint_url = https://lab.example.org:9000
s3 =
    addressing_style = path
"""
    environment = config(tmp_path, text)
    assert s3_access(environment) == S3Access(region="eu-north-1")
    assert s3_access({**environment, "AWS_REGION": "other"}) == S3Access(region="other")
    lab = S3Access(endpoint="https://lab.example.org:9000", region="us-east-1")
    assert s3_access({**environment, "AWS_PROFILE": "lab"}) == lab
    assert s3_access({**environment, "AWS_DEFAULT_PROFILE": "lab"}) == lab
    assert s3_access({**environment, "AWS_PROFILE": "unknown"}) == S3Access()
    named = {"AWS_CONFIG_FILE": f"{tmp_path}/.aws/config", "AWS_PROFILE": "lab"}
    assert s3_access(named) == lab


def test_a_configuration_that_is_none_is_named_and_nothing_of_it_is_shown(tmp_path: Path) -> None:
    environment = config(tmp_path, "aws_secret_access_key geheim\n")
    with pytest.raises(BadStorageAccess, match=r"\.aws/config cannot be read .* \(MissingSectionHeaderError\)") as bad:
        s3_access(environment)
    assert "geheim" not in str(bad.value)
    (tmp_path / ".aws" / "config").write_bytes(b"\xff\xfe")
    with pytest.raises(BadStorageAccess, match="UnicodeDecodeError"):
        s3_access(environment)


@pytest.mark.parametrize(
    ("endpoint", "complaint"),
    [
        ("127.0.0.1:7070", r"'127\.0\.0\.1:7070' is not the endpoint of a store; write AWS_ENDPOINT_URL as a URL"),
        ("http://store/bucket", "'http://store/bucket' is not"),
        ("http://store?X-Amz-Signature=geheim", "'http://store' is not"),
        ("https://", "is not the endpoint"),
        ("https://me:geheim@store", "contains a user name or a password; remove them from AWS_ENDPOINT_URL"),
        ("me:geheim@store", "contains a user name or a password"),
    ],
)
def test_an_endpoint_that_is_none_is_refused_and_shows_no_secret(endpoint: str, complaint: str) -> None:
    with pytest.raises(BadStorageAccess, match=complaint) as bad:
        s3_access({"AWS_ENDPOINT_URL": endpoint})
    assert "geheim" not in str(bad.value)


def test_deltalake_gets_where_and_how_but_no_secret() -> None:
    options = access_of(URI, {**PLAIN, **SECRETS})
    assert options["aws_endpoint_url"] == "http://127.0.0.1:7070"
    assert options["aws_region"] == "us-east-1"
    assert options["aws_allow_http"] == "true"
    assert options["aws_conditional_put"] == "etag"
    assert not set(SECRETS.values()) & set(options.values())
    at_amazon = access_of(URI, {"AWS_REGION": "eu-west-1"})
    assert at_amazon["aws_region"] == "eu-west-1"
    assert not {"aws_endpoint_url", "aws_allow_http"} & set(at_amazon)
    assert "aws_region" not in access_of(URI, {})
    assert "aws_allow_http" not in access_of(URI, {"AWS_ENDPOINT_URL": "https://store"})


@pytest.mark.parametrize("uri", ["file:/kept", "gs://bucket/kept", ""])
def test_another_storage_needs_nothing(uri: str) -> None:
    assert access_of(uri, PLAIN) == {}
    assert hadoop_conf(uri, Path("/scratch"), PLAIN) == {}


def test_spark_gets_where_and_how_but_no_secret() -> None:
    conf = hadoop_conf(URI, Path("/scratch"), {**PLAIN, **SECRETS})
    assert not set(SECRETS.values()) & set(conf.values())
    assert all(key.startswith("spark.hadoop.") for key in conf)
    own = {key.removeprefix("spark.hadoop.fs.s3a."): value for key, value in conf.items()}
    assert own["endpoint"] == "http://127.0.0.1:7070"
    assert own["endpoint.region"] == "us-east-1"
    assert own["path.style.access"] == "true"
    assert own["connection.ssl.enabled"] == "false"
    assert own["directory.marker.retention"] == "keep"
    assert own["buffer.dir"] == "/scratch/s3a"
    at_amazon = hadoop_conf(URI, Path("/scratch"), {})
    named = {"endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled"}
    assert not {f"spark.hadoop.fs.s3a.{key}" for key in named} & set(at_amazon)
    secure = hadoop_conf(URI, Path("/scratch"), {"AWS_ENDPOINT_URL": "https://store"})
    assert secure["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "true"


def test_a_file_of_credentials_that_java_would_not_read_is_refused() -> None:
    half = {"AWS_SHARED_CREDENTIALS_FILE": "/etc/store"}
    with pytest.raises(BadStorageAccess, match="set AWS_CREDENTIAL_PROFILES_FILE to the same path too, on every node"):
        hadoop_conf(URI, Path("/scratch"), half)
    hadoop_conf(URI, Path("/scratch"), {**half, "AWS_CREDENTIAL_PROFILES_FILE": "/etc/store"})
    hadoop_conf(URI, Path("/scratch"), {**half, **SECRETS})


def test_a_bucket_is_the_first_part_of_the_path() -> None:
    assert bucket_of(URI) == bucket_of("s3a://bucket") == "bucket"
