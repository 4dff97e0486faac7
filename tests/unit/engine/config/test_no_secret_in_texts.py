"""A secret is planted in every setting that may have one: no repr, str, error, traceback or pickled error shows it."""

import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.pretty import pretty_repr

from engine.base.errors import MirrorError
from engine.base.redaction import own_redacted
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.secrets import SECRET_KEYS, handshake_options, is_secret, literal_secrets, resolved_settings
from engine.config.settings import MirrorConfig
from engine.jobs.runtime.kafka_options import kafka_options
from engine.security.mechanisms import read_login
from engine.security.sasl.jaas import JAAS
from tests.harness.known_secrets import forget_secrets

PLANTED = "Tr0ub4dor&3-planted"
BASE = """\
clusters = A, B
bootstrap.servers = h:1
A->B.enabled = true
B.security.protocol = SASL_PLAINTEXT
"""
LOGINS = {
    "PLAIN": f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{PLANTED}";',
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="u" password="{PLANTED}";',
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    f' clientId="u" clientSecret="{PLANTED}" scope="s";',
}
BEARER = """\
B.sasl.login.callback.handler.class = org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
B.sasl.oauthbearer.token.endpoint.url = https://auth:1/token
"""


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    forget_secrets()
    yield
    forget_secrets()


def config_of(text: str) -> MirrorConfig:
    return read_config(parse_properties(BASE + text, "mm2.properties"))


def login_text(mechanism: str, password: str = "") -> str:
    line = LOGINS[mechanism].replace(PLANTED, password) if password else LOGINS[mechanism]
    return f"B.sasl.mechanism = {mechanism}\nB.sasl.jaas.config = {line}\n{BEARER * (mechanism == 'OAUTHBEARER')}"


def texts_of(value: Any) -> str:
    """Return all that Python, rich and msgspec's structs say of a value, and of what is in it."""
    found = [repr(value), str(value), f"{value}", pretty_repr(value, max_length=None)]
    if isinstance(value, msgspec.Struct):
        fields = [getattr(value, name) for name in value.__struct_fields__ if name != "security"]
        found += [repr(field) for field in fields if not isinstance(field, str)]
    return "\n".join(found)


@pytest.mark.parametrize("mechanism", LOGINS)
def test_no_text_of_a_configuration_or_login_shows_a_password(mechanism: str) -> None:
    config = config_of(login_text(mechanism))
    cluster = config.clusters["B"]
    assert PLANTED in str(cluster.security)  # it is there, and would be seen
    settings, options = resolved_settings(cluster), handshake_options(cluster, "c")
    values = [config, *config.flows, cluster, settings, options, options.credentials(), read_login(settings)]
    values += [kafka_options(cluster)]
    for value in values:
        assert PLANTED not in texts_of(value), type(value)
    assert literal_secrets(cluster)


def test_no_text_of_the_file_shows_a_password() -> None:
    file = parse_properties(BASE + login_text("PLAIN"), "mm2.properties")
    for value in (file, *file.entries.values()):
        assert PLANTED not in texts_of(value)


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_an_error_about_a_key_with_a_secret_does_not_repeat_it(key: str) -> None:
    """Each key gets a value that cannot be right, with the protocol for which it counts."""
    more = login_text("OAUTHBEARER") if "oauthbearer" in key else login_text("PLAIN")
    wanted = more.replace("B.sasl.jaas.config", "B.unused") if key == JAAS else more
    text = BASE.replace("SASL_PLAINTEXT", "SASL_SSL") + wanted + f"B.{key} = {PLANTED}\n"
    text += "B.ssl.keystore.type = PEM\n" if key.startswith("ssl.keystore.key") else ""
    try:
        cluster = read_config(parse_properties(text, "mm2.properties")).clusters["B"]
        handshake_options(cluster, "c")
    except MirrorError as error:
        again = pickle.loads(pickle.dumps(error))
        texts = [repr(error), str(error), str(again), "".join(traceback.format_exception(error))]
        assert not [one for one in texts if PLANTED in one]
    assert is_secret(f"B.{key}")


def test_what_a_placeholder_stands_for_is_known_and_hidden_afterwards(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"pw={PLANTED}\n")
    text = login_text("PLAIN", password="${file:" + str(secrets) + ":pw}")
    cluster = config_of(text).clusters["B"]
    assert own_redacted(PLANTED) == PLANTED  # nobody has asked for it yet
    handshake_options(cluster, "c")
    assert own_redacted(f"Java says: {PLANTED}!") == "Java says: [hidden]!"
    assert own_redacted("user u") == "user u"


def test_a_key_in_the_options_of_a_login_is_known_and_hidden() -> None:
    """It opens the token endpoint's TLS; a part of it may stand in a text without the words around the block."""
    line = LOGINS["OAUTHBEARER"].replace('scope="s"', 'ssl.keystore.key="planted in an option"')
    config = config_of(f"B.sasl.mechanism = OAUTHBEARER\nB.sasl.jaas.config = {line}\n{BEARER}")
    with pytest.raises(MirrorError):
        handshake_options(config.clusters["B"], "c")
    assert own_redacted("planted in an option") == "[hidden]"


def test_a_login_that_cannot_be_read_is_hidden_whole() -> None:
    cluster = config_of(login_text("PLAIN")).clusters["B"]
    line = f"x required password={PLANTED} oops"
    broken = msgspec.structs.replace(cluster, security={**cluster.security, JAAS: line})
    with pytest.raises(MirrorError) as caught:
        handshake_options(broken, "c")
    assert PLANTED not in str(caught.value)
    assert PLANTED not in own_redacted(line)
