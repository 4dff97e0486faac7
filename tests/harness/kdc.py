"""A Kerberos realm on this machine: Debian's krb5-kdc in a folder of the test, on a port of its own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.ports import HOST, pick_ports
from tests.harness.eventually import wait_until

REALM = "TEST.RAYMIRROR"
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
            f"[domain_realm]\nlocalhost = {REALM}\n"
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

    def run(self, *command: str) -> None:
        """Run one of Kerberos's tools in this realm."""
        environment = {**os.environ, **self.environment, "PATH": _path()}
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment)

    def principal(self, name: str) -> Path:
        """Make a principal with a random key; return its keytab."""
        keytab = self.folder / f"{name.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {name}")
        self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {name}")
        return keytab


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
