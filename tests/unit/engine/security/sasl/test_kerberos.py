"""GSSAPI: what a login module asks for, and the messages, over a library of the test (integration: a real KDC)."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from engine.security.mechanisms import java_login, read_login
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings

KEYTAB = 'useKeyTab=true storeKey=true keyTab="/etc/m.keytab" principal="mirror@R"'


class GSSError(Exception):
    """As the package raises it."""

    def __init__(self, min_code: int, words: str) -> None:
        super().__init__(words)
        self.min_code, self.maj_code = min_code, 1

    def get_all_statuses(self, _code: int, _is_maj: bool) -> list[str]:
        return [str(self)]


class Context:
    """A security context that is complete after the broker's ticket."""

    layers = b"\x07\x00\x10\x00"

    def __init__(self, **words: Any) -> None:
        self.words = words
        self.complete = False

    def step(self, token: bytes | None) -> bytes | None:
        self.complete = token == b"AP-REP"
        return None if self.complete else b"AP-REQ"

    def unwrap(self, _token: bytes) -> Any:
        return SimpleNamespace(message=self.layers)

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped:" + message)


class Library:
    """The package `gssapi`, as far as a login uses it."""

    MechType = SimpleNamespace(kerberos="krb5")
    NameType = SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
    exceptions = SimpleNamespace(GSSError=GSSError)

    def __init__(self) -> None:
        self.acquired: list[tuple[Any, Any]] = []
        self.contexts: list[Context] = []
        self.error: GSSError | None = None
        self.Credentials = SimpleNamespace(acquire=self._acquire)

    def Name(self, text: str, name_type: str) -> tuple[str, str]:
        return name_type, text

    def _acquire(self, name: Any, usage: str, mechs: list[str], store: dict[str, str] | None) -> Any:
        if self.error is not None:
            raise self.error
        self.acquired.append((name, store))
        return SimpleNamespace(creds="credentials")

    def SecurityContext(self, **words: Any) -> Context:
        self.contexts.append(Context(**words))
        return self.contexts[-1]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


def settings(options: str, service: str | None = "kafka") -> SecuritySettings:
    jaas = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
    named = {} if service is None else {"sasl.kerberos.service.name": service}
    return SecuritySettings({"sasl.jaas.config": jaas, **named})


def test_a_keytab_logs_in(library: Library) -> None:
    exchange = read_login(settings(KEYTAB)).exchange("broker-1")
    assert next(exchange) == b"AP-REQ"
    assert exchange.send(b"AP-REP") == b"", "the broker speaks next"
    assert exchange.send(b"layers") == b"wrapped:\x01\x00\x00\x00"
    with pytest.raises(StopIteration):
        exchange.send(b"")
    ((name, store),) = library.acquired
    assert name == ("principal", "mirror@R")
    assert store["client_keytab"] == "/etc/m.keytab"
    assert store["ccache"].startswith("MEMORY:")
    assert library.contexts[0].words["name"] == ("service", "kafka@broker-1")


@pytest.mark.parametrize(
    ("options", "store"),
    [
        ("useTicketCache=true", None),
        ('useTicketCache=true ticketCache="/tmp/cc"', {"ccache": "FILE:/tmp/cc"}),
        ('useTicketCache=true ticketCache="file:/tmp/cc"', {"ccache": "FILE:/tmp/cc"}),
    ],
)
def test_a_ticket_cache_logs_in(library: Library, options: str, store: dict[str, str] | None) -> None:
    next(read_login(settings(f"{options} serviceName=kafka", None)).exchange("h"))
    assert library.acquired == [(None, store)]


@pytest.mark.parametrize(
    ("options", "service", "wrong"),
    [
        ("useKeyTab=true", "kafka", "has no keyTab or no principal"),
        ("storeKey=true", "kafka", "neither a keytab nor a ticket cache"),
        (KEYTAB, None, r"sasl\.kerberos\.service\.name: missing"),
        (f"{KEYTAB} serviceName=other", "kafka", r"differs from serviceName in sasl\.jaas\.config"),
    ],
)
def test_what_a_login_lacks(library: Library, options: str, service: str | None, wrong: str) -> None:
    with pytest.raises(BadSecurity, match=wrong):
        read_login(settings(options, service))


def test_the_library_s_reason_is_told(library: Library) -> None:
    library.error = GSSError(-1765328228 & 0xFFFFFFFF, "Cannot contact any KDC")
    with pytest.raises(LoginFailed, match="Kerberos: Cannot contact any KDC") as caught:
        read_login(settings(KEYTAB)).exchange("h")
    assert caught.value.may_pass
    library.error = GSSError(5, "Keytab has no keys")
    with pytest.raises(LoginFailed, match="Keytab has no keys") as caught:
        read_login(settings(KEYTAB)).exchange("h")
    assert not caught.value.may_pass


@pytest.mark.parametrize(
    ("options", "right"),
    [(KEYTAB, "does the keytab hold the principal's present key"), ("useTicketCache=true", "renew the ticket cache")],
)
def test_a_ticket_that_ended_says_what_to_look_at(library: Library, options: str, right: str) -> None:
    library.error = GSSError(-1765328352 & 0xFFFFFFFF, "Ticket expired")
    with pytest.raises(LoginFailed, match="Kerberos: Ticket expired; ") as caught:
        read_login(settings(options)).exchange("h")
    assert right in str(caught.value)
    assert not caught.value.may_pass


def test_a_broker_that_wants_to_encrypt(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "layers", b"\x04\x00\x10\x00")
    exchange = read_login(settings(KEYTAB)).exchange("h")
    next(exchange)
    exchange.send(b"AP-REP")
    with pytest.raises(LoginFailed, match="wants a Kerberos security layer"):
        exchange.send(b"layers")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(BadSecurity, match=r"sasl\.mechanism: GSSAPI needs the package gssapi.*raymirror\[kerberos\]"):
        read_login(settings(KEYTAB))


def test_java_gets_the_same_module(library: Library) -> None:
    found = java_login(settings(f"{KEYTAB} serviceName=kafka", None))
    assert found["sasl.kerberos.service.name"] == "kafka"
    assert found["sasl.jaas.config"].startswith("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=")
