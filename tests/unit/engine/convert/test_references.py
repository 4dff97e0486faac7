"""References to secrets in raymirror's form, and secrets that stand as text."""

import pytest

from engine.config.file.providers import Providers, Where
from engine.convert.model import Carried, Origin
from engine.convert.references import hidden, is_literal_secret, kept_references

AT = Origin("f", 1, "k")
PACKAGE = "org.apache.kafka.common.config.provider."


@pytest.mark.parametrize(
    ("text", "kept", "why"),
    [
        ("plain", "plain", ""),
        ("${file:/a/b:c}", "${file:/a/b:c}", ""),
        ("${env:NAME}", "${env:NAME}", ""),
        ("x${directory:/a:b}y", "x${directory:/a:b}y", ""),
        ("${strimzienv:NAME}", "${env:NAME}", "provider 'strimzienv' is 'env' here"),
        ("${mine:/a/b:c}", "${file:/a/b:c}", "provider 'mine' is 'file' here"),
        ("${file2:/a/b:c}", "${file:/s/file2.properties:_a_b.c}", "raymirror has no provider 'file2'"),
        ("${secrets:ns/name:key}", "${directory:/s/name:key}", "mount 'name' of Kubernetes at /s/name"),
        ("${strimzisecrets:name:key}", "${directory:/s/name:key}", "mount 'name' of Kubernetes at /s/name"),
        ("${vault:kv/data/x:password}", "${file:/s/vault.properties:kv_data_x.password}", "as kv_data_x.password"),
        ("${vault:one}", "${file:/s/vault.properties:one}", "write the value into /s/vault.properties, as one"),
        ("${file:nopath}", "${file:/s/file.properties:nopath}", "raymirror has no provider 'file'"),
        ("${::}", "${file:/s/provider.properties:value}", "raymirror has no provider ''"),
        ("${topic}", "${topic}", ""),
    ],
)
def test_a_reference_in_raymirrors_form(text: str, kept: str, why: str) -> None:
    found, said = kept_references(text, {"mine": f"{PACKAGE}FileConfigProvider", "file2": "com.example.Own"}, "/s")
    assert found == kept
    assert why in said
    assert bool(why) == bool(said)
    assert kept_references(found, {}, "/s") == (found, "")


def test_every_reference_of_a_value_is_kept_and_each_reason_is_said_once() -> None:
    found, why = kept_references("${secrets:n/a:u} ${secrets:n/a:p}", {}, "/s")
    assert found == "${directory:/s/a:u} ${directory:/s/a:p}"
    assert why == "mount 'a' of Kubernetes at /s/a"


def test_raymirror_resolves_what_was_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "name").mkdir()
    (folder / "name" / "key").write_text("one")
    (folder / "vault.properties").write_text("kv.x = two\n")
    found, _ = kept_references("${secrets:ns/name:key}+${vault:kv:x}", {}, str(folder))
    assert Providers().resolve(found, Where("f", 1, "k")) == "one+two"


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("A.sasl.jaas.config", f'{LOGIN} username="u" password="p";', True),
        ("A.sasl.jaas.config", f"{LOGIN} username=u password=p;", True),
        ("A.sasl.jaas.config", f'{LOGIN} username="u" password="${{env:P}}";', False),
        ("A.sasl.jaas.config", f'{LOGIN} username="u" password="${{env:P}}x";', True),
        ("A.sasl.jaas.config", f'{LOGIN} username="u";', False),
        ("A.sasl.jaas.config", "com.example.M required clientSecret='x';", True),
        ("A.sasl.jaas.config", 'M required oauth.token.endpoint.uri="u" oauth.access.token="${env:T}";', False),
        ("A.sasl.jaas.config", 'M required oauth.token.endpoint.uri="u" oauth.access.token="t";', True),
        ("sasl.jaas.config", "not a login", True),
        ("sasl.jaas.config", "${file:/a:b}", False),
        ("sasl.jaas.config", "", False),
        ("ssl.key.password", "p", True),
        ("A.ssl.key.password", "${env:P}", False),
        ("A.ssl.keystore.password", "p", True),
        ("A.ssl.keystore.key", "-----BEGIN", True),
        ("A.ssl.keystore.location", "/a/password.pem", False),
        ("A.sasl.oauthbearer.token.endpoint.url", "https://x", False),
        ("A.my.client.secret", "p", True),
        ("config.providers.vault.param.token", "s.planted", True),
        ("A.key.passphrase", "p", True),
        ("confluent.telemetry.api.key", "p", True),
        ("A.delegation.token.max.lifetime.ms", "5", False),
        ("A.sasl.oauthbearer.assertion.algorithm", "ES256", False),
        ("A.sasl.oauthbearer.assertion.private.key.file", "/k.pem", False),
        ("A->B.topics", "password", False),
    ],
)
def test_a_secret_that_stands_as_text(key: str, value: str, secret: bool) -> None:
    assert is_literal_secret(Carried(key, value, AT)) == secret


def test_an_address_with_a_password_is_a_secret() -> None:
    key = "A.sasl.oauthbearer.token.endpoint.url"
    assert is_literal_secret(Carried(key, "https://me:PLANTED@issuer.example/token", AT))
    assert not is_literal_secret(Carried(key, "https://issuer.example/token?a=b@c", AT))


def test_a_hidden_secret_is_a_reference_to_where_it_may_be_written() -> None:
    found = hidden(Carried("A.sasl.jaas.config", "SECRET", AT, "before"), "A", "/s")
    assert found.value == "${file:/s/A.properties:sasl.jaas.config}"
    assert found.why.startswith("before; a secret, which is not printed: write it into /s/A.properties")
    assert hidden(Carried("sasl.jaas.config", "SECRET", AT), "", "/s").value == (
        "${file:/s/mirror.properties:sasl.jaas.config}"
    )
    assert "SECRET" not in repr(found) + repr(Carried("k", "SECRET", AT))
