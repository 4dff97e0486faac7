"""GSSAPI: a Kerberos ticket of a keytab or a ticket cache (RFC 4752), by the optional package `gssapi`.

The system's Kerberos library gets and renews the tickets: of a keytab into a cache in memory, at each login that finds
them half used. So nothing has to run beside it, and Kafka's keys for its own renewal thread mean nothing here.
"""

from collections.abc import Mapping
from itertools import count
from types import ModuleType
from typing import Any

from engine.security.sasl.jaas import JAAS, LoginEntry
from engine.security.sasl.login import Exchange, LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings

SERVICE_NAME = "sasl.kerberos.service.name"
_KEY, _MECHANISM = "sasl.mechanism", "GSSAPI"
_NO_LAYER = b"\x01\0\0\0"
"""No security layer, so no buffer; and no other name than that of the ticket."""
_NO_LAYER_BIT = 0x01
_KDC_UNREACHABLE = -1765328228 & 0xFFFFFFFF
"""KRB5_KDC_UNREACH."""
_TICKET_EXPIRED = -1765328352 & 0xFFFFFFFF
"""KRB5KRB_AP_ERR_TKT_EXPIRED: the library reports the old ticket, not why it got no new one."""
_FILE = "FILE:"
_caches = count(1)


class KerberosLogin:
    """A principal with its keytab, or a ticket cache."""

    mechanism = _MECHANISM
    user = ""
    """Brokers make a short name of the principal by rules of their own."""

    def __init__(self, library: ModuleType, service: str, principal: str, store: Mapping[str, str] | None) -> None:
        self._library = library
        self._service = service
        self._principal = principal
        self._store = store

    def exchange(self, host: str) -> Exchange:
        """Get a ticket for a broker. It asks the KDC. Raises LoginFailed."""
        exchange = self._messages(host)
        first = next(exchange)
        return _beginning_with(first, exchange)

    def _messages(self, host: str) -> Exchange:
        gssapi = self._library
        try:
            context = self._context(gssapi, host)
            token: bytes | None = None
            while not context.complete:
                token = yield context.step(token) or b""
            layers = context.unwrap(token).message
            if len(layers) != len(_NO_LAYER) or not layers[0] & _NO_LAYER_BIT:
                raise LoginFailed("the broker wants a Kerberos security layer, which Kafka does not have")
            yield context.wrap(_NO_LAYER, False).message
        except gssapi.exceptions.GSSError as error:
            code = getattr(error, "min_code", 0) & 0xFFFFFFFF
            expired = f"; {self._renewal()}" if code == _TICKET_EXPIRED else ""
            raise LoginFailed(f"Kerberos: {_reason(error)}{expired}", may_pass=code == _KDC_UNREACHABLE) from None

    def _renewal(self) -> str:
        """Say what to look at if there is no new ticket."""
        if self._store is not None and "client_keytab" in self._store:
            return "the KDC gave no new one: does the keytab hold the principal's present key (klist -k, kvno)?"
        return "renew the ticket cache (kinit)"

    def _context(self, gssapi: ModuleType, host: str) -> Any:
        kerberos = gssapi.MechType.kerberos
        principal = gssapi.NameType.kerberos_principal
        name = gssapi.Name(self._principal, name_type=principal) if self._principal else None
        own = gssapi.Credentials.acquire(name, usage="initiate", mechs=[kerberos], store=self._store)
        broker = gssapi.Name(f"{self._service}@{host}", name_type=gssapi.NameType.hostbased_service)
        return gssapi.SecurityContext(name=broker, creds=own.creds, mech=kerberos, usage="initiate")


def _beginning_with(first: bytes, rest: Exchange) -> Exchange:
    """Return an exchange whose first message was made already."""
    answer = yield first
    while True:
        try:
            message = rest.send(answer)
        except StopIteration:
            return
        answer = yield message


def _reason(error: Any) -> str:
    """Return the library's own words: the special reason if there is one, else the general one."""
    special = error.get_all_statuses(error.min_code, False) if error.min_code else []
    return "; ".join(special or error.get_all_statuses(error.maj_code, True))


def read_kerberos(settings: SecuritySettings, entry: LoginEntry) -> KerberosLogin:
    """Return the login of resolved settings (Kafka: KerberosLogin). Raises BadSecurity."""
    options = entry.options
    service = service_name(settings, entry)
    principal = options.get("principal", "")
    if _is_true(options, "useKeyTab"):
        if not options.get("keyTab") or not principal:
            raise BadSecurity(
                JAAS, "uses a keytab, but has no keyTab or no principal", 'write keyTab="..." principal="..."'
            )
        store: dict[str, str] | None = {
            "client_keytab": options["keyTab"],
            "ccache": f"MEMORY:raymirror-{next(_caches)}",
        }
    elif _is_true(options, "useTicketCache"):
        store = {"ccache": f"{_FILE}{_path(options['ticketCache'])}"} if options.get("ticketCache") else None
    else:
        right = 'write useKeyTab=true keyTab="..." principal="...", or useTicketCache=true'
        raise BadSecurity(JAAS, "uses neither a keytab nor a ticket cache", right)
    return KerberosLogin(_library(), service, principal, store)


def _path(name: str) -> str:
    """Return the path of a cache; Java takes it with and without `FILE:`."""
    return name[len(_FILE) :] if name.upper().startswith(_FILE) else name


def service_name(settings: SecuritySettings, entry: LoginEntry) -> str:
    """Return the service name of the brokers' principals; both places must agree, as in Kafka. Raises BadSecurity."""
    names = {settings.text(SERVICE_NAME), entry.options.get("serviceName", "")} - {""}
    if not names:
        raise BadSecurity(SERVICE_NAME, "missing", "set it to the first part of the brokers' principals, e.g. kafka")
    if len(names) > 1:
        raise BadSecurity(SERVICE_NAME, f"differs from serviceName in {JAAS}", "keep one of them")
    return names.pop()


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _library() -> ModuleType:
    try:
        import gssapi
    except (ImportError, OSError):  # OSError: the package is there, and the system's library is not
        right = "install the system's Kerberos (Debian: libkrb5-dev), then pip install 'raymirror[kerberos]'"
        raise BadSecurity(_KEY, f"{_MECHANISM} needs the package gssapi, which is missing", right) from None
    found: ModuleType = gssapi
    return found
