"""The TLS files of one service: authorities of its own, and the certificate that proves who calls.

A renewed file makes another :attr:`TlsFiles.stamp`, so that an engine that is made anew takes new
connections, while calls that run end on the old ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from enginehost.errors import ConfigError
from enginehost_engines.rest.auth import auth_kind

if TYPE_CHECKING:
    import ssl

    from enginehost_engines.rest.config import RestConfig


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths, empty where there is none; ``stamp`` has the change time and size of each."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""
    password: str = field(default="", repr=False)
    stamp: tuple[tuple[int, int], ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        return tuple(Path(path) for path in (self.authorities, self.certificate, self.key) if path)


NO_FILES = TlsFiles()


def tls_files(config: RestConfig, folder: Path) -> TlsFiles:
    """The files that a smss file names, relative to its folder; :class:`ConfigError` where one is missing."""
    authorities = _existing(config.tls_ca_file, "TLS_CA_FILE", folder)
    certificate = _existing(config.auth_client_cert, "AUTH_CLIENT_CERT", folder)
    key = _existing(config.auth_client_key, "AUTH_CLIENT_KEY", folder)
    if not (authorities or certificate):
        return NO_FILES
    password = config.auth_client_key_password
    states = [Path(path).stat() for path in (authorities, certificate, key) if path]
    return TlsFiles(
        authorities,
        certificate,
        key,
        password.get_secret_value() if password else "",
        tuple((state.st_mtime_ns, state.st_size) for state in states),
    )


def _existing(named: str | None, key: str, folder: Path) -> str:
    if not named:
        return ""
    path = folder / named
    if not path.is_file():
        hint = "name a PEM file, by a path relative to the smss file"
        raise ConfigError(f"{key}: there is no file {named}", hint=hint, key=key, reason="no-such-file")
    return str(path)


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """What connections need; blocking. :class:`ConfigError` where a file is not what its key says.

    The authorities stand beside the system's (``SSL_CERT_FILE`` counts).
    """
    import ssl

    import httpx2

    context = httpx2.create_ssl_context()
    if files.authorities:
        try:
            context.load_verify_locations(files.authorities)
        except (ssl.SSLError, OSError):
            raise _unreadable("TLS_CA_FILE", "holds no certificates in PEM form") from None
    if files.certificate:
        # without a password OpenSSL would ask for one on the terminal
        try:
            context.load_cert_chain(files.certificate, files.key or None, password=files.password or "")
        except (ssl.SSLError, OSError, ValueError):
            problem = "is no PEM certificate with the private key that belongs to it"
            raise _unreadable("AUTH_CLIENT_CERT", problem) from None
    return context


def _unreadable(key: str, problem: str) -> ConfigError:
    hint = "the key may stand in AUTH_CLIENT_KEY, its password in AUTH_CLIENT_KEY_PASSWORD"
    return ConfigError(
        f"{key} {problem}", hint=hint if key != "TLS_CA_FILE" else "", key=key, reason="bad-tls-file"
    )


def check_libraries(config: RestConfig) -> None:
    """Raise :class:`ConfigError` where the file asks for a library that is not installed."""
    if config.http2 and find_spec("h2") is None:
        raise _not_installed("HTTP2", "h2", "http2")
    if auth_kind(config) == "sigv4" and find_spec("botocore") is None:
        raise _not_installed("AUTH", "botocore", "aws")


def _not_installed(key: str, library: str, extra: str) -> ConfigError:
    hint = f"install it beside the host: pip install enginehost[{extra}]"
    return ConfigError(f"{key} needs the library {library}", hint=hint, key=key, reason="not-installed")
