"""A Kerberos realm on this machine: Debian's krb5-kdc in a folder of the test, on a port of its own."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.ports import HOST, pick_ports
from tests.harness.eventually import wait_until

REALM, BROKER = "TEST.RAYMIRROR", f"kafka/{HOST}"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def has_kdc() -> bool:
    """Whether this machine has Debian's krb5-kdc, krb5-admin-server and krb5-user."""
    return all(shutil.which(tool, path=_path()) for tool in _TOOLS)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Realm:
    """A realm in a folder; its principals have keytabs there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.config = folder / "krb5.conf"
        (port,) = pick_ports(1)
        self.config.write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
            "dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\n kdc = {HOST}:{port}\n}}\n"
            f"[domain_realm]\n{HOST} = {REALM}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_ports = {port}\nkdc_tcp_ports = {port}\n"
            f"[realms]\n{REALM} = {{\n database_name = {folder}/principal\n key_stash_file = {folder}/stash\n"
            f" acl_file = {folder}/acl\n max_life = 10h\n}}\n[logging]\nkdc = FILE:{folder}/kdc.log\n"
        )
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        }
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the realm")

    def run(self, *command: str) -> str:
        """Run one of Kerberos's tools in this realm; return what it prints."""
        environment = {**os.environ, **self.environment, "PATH": _path()}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def principal(self, name: str) -> Path:
        """Make a principal with a random key; return its keytab."""
        keytab = self.folder / f"{name.replace('/', '-')}.keytab"
        self.administer(f"addprinc -randkey +requires_preauth {name}")
        self.administer(f"ktadd -k {keytab} {name}")
        return keytab

    def administer(self, query: str) -> str:
        """Ask kadmin for something; return its answer."""
        return self.run("kadmin.local", "-r", REALM, "-q", query)

    def limit(self, name: str, life_s: int) -> None:
        """Give tickets of a principal a short life."""
        self.administer(f'modprinc -maxlife "{life_s} seconds" {name}')

    def renew(self, name: str, keytab: Path) -> None:
        """Give a principal a new key, the next version, which is added to a keytab."""
        self.administer(f"ktadd -k {keytab} {name}")

    def key_version(self, name: str) -> int:
        """Return the version of a principal's present key."""
        return max(map(int, re.findall(r"^Key: vno (\d+)", self.administer(f"getprinc {name}"), re.MULTILINE)))

    def log_lines(self, *words: str) -> list[str]:
        """Return the lines of the KDC's log that have all these words."""
        return [line for line in _log(self).splitlines() if all(word in line for word in words)]


def kerberos_listener(keytab: Path, reauth_s: float) -> dict[str, str]:
    """Return the properties of a broker's listener whose principal is `BROKER`, and which accepts a login so long."""
    return {
        "sasl.enabled.mechanisms": "GSSAPI",
        "gssapi.sasl.jaas.config": f"{_MODULE} required {by_keytab(keytab, BROKER)};",
        "gssapi.connections.max.reauth.ms": f"{reauth_s * 1000:.0f}",
        "sasl.kerberos.service.name": "kafka",
    }


def by_kerberos(alias: str, address: str, login: str) -> str:
    """Return the settings of a cluster for a login module with these options."""
    return (
        f"{alias}.bootstrap.servers = {address}\n"
        f"{alias}.security.protocol = SASL_PLAINTEXT\n{alias}.sasl.mechanism = GSSAPI\n"
        f"{alias}.sasl.kerberos.service.name = kafka\n{alias}.sasl.jaas.config = {_MODULE} required {login};\n"
    )


def by_keytab(keytab: Path, name: str) -> str:
    """Return the options of a login module for a principal with a keytab."""
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{name}@{REALM}"'


@contextmanager
def running_kdc(folder: Path) -> Iterator[Realm]:
    """Make a realm and run its KDC."""
    realm = Realm(folder)
    environment = {**os.environ, **realm.environment, "PATH": _path()}
    kdc = subprocess.Popen(["krb5kdc", "-n"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "commencing operation" in _log(realm), "the KDC to begin")
        yield realm
    finally:
        kdc.terminate()
        kdc.wait()


def _log(realm: Realm) -> str:
    log = realm.folder / "kdc.log"
    return log.read_text() if log.exists() else ""
