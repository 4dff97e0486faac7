"""Resolves the secrets of the HTTP server in the process that serves: passwords, tokens, the key of its certificate."""

import hashlib
import ssl

import msgspec

from engine.base.redaction import remember_secret
from engine.config.file.providers import Where
from engine.config.http.http_config import CERTIFICATE, CLIENT_CA, KEY_PASSWORD, user_key
from engine.config.settings import HttpConfig
from policies.roles import Role


class HttpLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A user with the SHA-256 of the password and of the token; None: that one is not accepted."""

    name: str
    role: Role
    password: bytes | None = None
    token: bytes | None = None

    def __repr__(self) -> str:
        return f"HttpLogin({self.name!r}, {self.role.value!r})"


def logins_of(config: HttpConfig) -> tuple[HttpLogin, ...]:
    """Resolve passwords and tokens. Raises ConfigError, which never repeats a value."""
    return tuple(
        HttpLogin(
            name=user.name,
            role=user.role,
            password=_digest(config, user_key(user.name, "password"), user.password),
            token=_digest(config, user_key(user.name, "token"), user.token),
        )
        for user in config.users
    )


def digest_of_secret(text: str) -> bytes:
    """Return the SHA-256 of a password or token: digests have one length, so a comparison tells nothing of it."""
    return hashlib.sha256(text.encode()).digest()


def tls_context(config: HttpConfig) -> ssl.SSLContext | None:
    """Return the TLS context of the server; None if it speaks plain HTTP. Raises ConfigError."""
    if not config.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(
            config.certificate, config.key, lambda: _resolve(config, KEY_PASSWORD, config.key_password)
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        right = "give readable PEM files of a certificate and its key"
        raise _where(config, CERTIFICATE).error(f"cannot be used: {_reason(error)}", right) from None
    if config.client_ca:
        try:
            context.load_verify_locations(config.client_ca)
        except (OSError, ValueError) as error:
            raise _where(config, CLIENT_CA).error(
                f"cannot be used: {_reason(error)}", "give a readable PEM file of certificates"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _digest(config: HttpConfig, key: str, value: str) -> bytes | None:
    if not value:
        return None
    text = _resolve(config, key, value).strip()
    if not text:
        raise _where(config, key).error("empty", "give a password or token that is not empty")
    return digest_of_secret(text)


def _resolve(config: HttpConfig, key: str, value: str) -> str:
    found = config.providers.resolve(value, _where(config, key))
    remember_secret(found)
    return found


def _where(config: HttpConfig, key: str) -> Where:
    return Where(config.file, config.lines.get(key, 0), key)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
