"""The table of SASL mechanisms: their login modules, how a login is read from settings, and what Java needs for it."""

from collections.abc import Callable

import msgspec

from engine.security.sasl.jaas import JAAS, LoginEntry, jaas_text, one_login
from engine.security.sasl.kerberos import SERVICE_NAME, read_kerberos, service_name
from engine.security.sasl.login import Login
from engine.security.sasl.plain import PlainLogin
from engine.security.sasl.scram import ScramLogin
from engine.security.settings import BadSecurity, SecuritySettings, shown

MECHANISM = "sasl.mechanism"
_DEFAULT = "GSSAPI"
_KAFKA = "org.apache.kafka.common.security."


class Mechanism(msgspec.Struct, frozen=True):
    """One mechanism: the login module that Kafka's clients need, and how a login is read."""

    module: str
    """The full name of the class."""
    read: Callable[[SecuritySettings, LoginEntry], Login]
    """Makes the login of resolved settings. Raises BadSecurity."""
    java: Callable[[SecuritySettings, LoginEntry], dict[str, str]]
    """Returns the settings that make Kafka's Java client log in the same way. Raises BadSecurity if it cannot."""
    any_module: bool = False
    """Whether modules with other names log in with `username` and `password` too: companies wrap Kafka's own ones."""

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


def _user_and_password(entry: LoginEntry) -> tuple[str, str]:
    options = entry.options
    if "username" not in options or "password" not in options:
        right = 'write ...LoginModule required username="..." password="...";'
        raise BadSecurity(JAAS, "has no username or no password", right)
    return options["username"], options["password"]


def _plain(_settings: SecuritySettings, entry: LoginEntry) -> Login:
    return PlainLogin(*_user_and_password(entry))


def _scram(settings: SecuritySettings, entry: LoginEntry) -> Login:
    is_token = entry.options.get("tokenauth", "").lower() == "true"
    return ScramLogin(mechanism_of(settings), *_user_and_password(entry), is_token=is_token)


def _bearer(settings: SecuritySettings, entry: LoginEntry) -> Login:
    from engine.security.oauth.handlers import read_bearer  # its libraries are large, and few clusters use tokens

    return read_bearer(settings, entry)


def _java_bearer(settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    from engine.security.oauth.handlers import java_bearer

    return java_bearer(settings, entry)


def _kerberos(settings: SecuritySettings, entry: LoginEntry) -> Login:
    return read_kerberos(settings, entry)


def _java_kerberos(settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    """Name Java's own module with the same options; keytabs and caches must be on every node."""
    return {JAAS: jaas_text(MECHANISMS["GSSAPI"].module, entry.options), SERVICE_NAME: service_name(settings, entry)}


def _msk_iam(settings: SecuritySettings, entry: LoginEntry) -> Login:
    from engine.security.aws.msk_iam import read_msk_iam

    return read_msk_iam(settings, entry)


def _java_msk_iam(_settings: SecuritySettings, _entry: LoginEntry) -> dict[str, str]:
    wrong = "AWS_MSK_IAM needs AWS's library, which Spark's Java client lacks"
    raise BadSecurity(MECHANISM, wrong, "run without raymirror.spark, or give Spark's jobs a SCRAM login")


def _same_options(settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    """Name the mechanism's own module, with the same options: the Java client has no other one."""
    _user_and_password(entry)
    return {JAAS: jaas_text(MECHANISMS[mechanism_of(settings)].module, entry.options)}


_SCRAM = Mechanism(f"{_KAFKA}scram.ScramLoginModule", _scram, _same_options, any_module=True)
MECHANISMS: dict[str, Mechanism] = {
    "PLAIN": Mechanism(f"{_KAFKA}plain.PlainLoginModule", _plain, _same_options, any_module=True),
    "GSSAPI": Mechanism("com.sun.security.auth.module.Krb5LoginModule", _kerberos, _java_kerberos),
    "AWS_MSK_IAM": Mechanism("software.amazon.msk.auth.iam.IAMLoginModule", _msk_iam, _java_msk_iam),
    "OAUTHBEARER": Mechanism(f"{_KAFKA}oauthbearer.OAuthBearerLoginModule", _bearer, _java_bearer),
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
}
"""By the name that `sasl.mechanism` has."""


def mechanism_of(settings: SecuritySettings) -> str:
    """Return the name of the mechanism that the settings ask for."""
    return settings.text(MECHANISM, _DEFAULT)


def check_mechanism(settings: SecuritySettings) -> None:
    """Refuse an unknown mechanism, unless its name is not known yet. Raises BadSecurity."""
    name = mechanism_of(settings)
    if MECHANISM not in settings.hidden and name not in MECHANISMS:
        raise BadSecurity(MECHANISM, f"{shown(name)} is not supported", f"use {', '.join(MECHANISMS)}")


def login_entry(settings: SecuritySettings) -> LoginEntry:
    """Return the login module of the settings, which fits their mechanism. Raises BadSecurity."""
    if JAAS not in settings:
        right = (
            'give a login module with username="..." and password="...";'
            " ${file:PATH:KEY} keeps the password out of this file"
        )
        raise BadSecurity(JAAS, "missing, but security.protocol asks for SASL", right)
    entry = one_login(settings.text(JAAS))
    _check_module(settings, entry)
    return entry


def _check_module(settings: SecuritySettings, entry: LoginEntry) -> None:
    """Refuse the login module of another mechanism, and an unknown one where no other would do."""
    mechanism = mechanism_of(settings)
    if MECHANISM in settings.hidden or mechanism not in MECHANISMS or entry.name == MECHANISMS[mechanism].name:
        return
    wanted = MECHANISMS[mechanism]
    theirs = [name for name, one in MECHANISMS.items() if one.name == entry.name]
    if theirs:
        default = "" if MECHANISM in settings else ", Kafka's default"
        wrong = f"{entry.name} is for {' or '.join(theirs)}, but sasl.mechanism is {mechanism}{default}"
        raise BadSecurity(JAAS, wrong, f"use {wanted.module}, or set sasl.mechanism = {theirs[0]}")
    if not wanted.any_module:
        wrong = f"has a login module that is not the one of sasl.mechanism = {mechanism}"
        raise BadSecurity(JAAS, wrong, f"use {wanted.module}")


def read_login(settings: SecuritySettings) -> Login:
    """Return the login of resolved settings. Raises BadSecurity."""
    check_mechanism(settings)
    return MECHANISMS[mechanism_of(settings)].read(settings, login_entry(settings))


def java_login(settings: SecuritySettings) -> dict[str, str]:
    """Return the SASL settings of Kafka's Java client for the same login. Raises BadSecurity."""
    check_mechanism(settings)
    name = mechanism_of(settings)
    return {MECHANISM: name, **MECHANISMS[name].java(settings, login_entry(settings))}
