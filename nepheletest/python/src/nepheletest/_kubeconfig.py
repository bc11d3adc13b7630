"""Reads the kubeconfigs that Nephele writes, and those like them.

They are YAML, which the standard library cannot parse. But a kubeconfig with one cluster and one user has each setting
once, on a line of its own, so it needs no parser. JSON is read, too. Anything else is refused, with the command that
converts it.
"""

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nepheletest._errors import NepheleError

_SERVER = "server"
_AUTHORITY = "certificate-authority-data"
_CERTIFICATE = "client-certificate-data"
_KEY = "client-key-data"
_TOKEN = "token"
_UNDERSTOOD = {_SERVER, _AUTHORITY, _CERTIFICATE, _KEY, _TOKEN}

# Without these settings, a client would reach another server, or the same one as another user.
_NOT_UNDERSTOOD = {
    "as",
    "auth-provider",
    "certificate-authority",
    "client-certificate",
    "client-key",
    "exec",
    "insecure-skip-tls-verify",
    "proxy-url",
    "tls-server-name",
    "tokenFile",
    "username",
}

_SETTING = re.compile(r"^[\s-]*(?P<name>[A-Za-z-]+):\s*(?P<value>.*?)\s*$")


@dataclass(frozen=True)
class Access:
    """How to reach an API server. Certificates and key are PEM."""

    server: str
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    token: str | None = None


def read(path: Path) -> Access:
    """Reads a kubeconfig file."""
    try:
        return parse(path.read_text())
    except OSError as error:
        raise NepheleError(f"failed to read the kubeconfig {path}: {error}") from error
    except ValueError as error:
        raise NepheleError(
            f"failed to read the kubeconfig {path}: {error}; convert it with "
            f"`kubectl --kubeconfig {path} config view --raw --minify --flatten --output json`"
        ) from error


def parse(text: str) -> Access:
    """Reads a kubeconfig. Raises ValueError for one that this module does not understand."""
    settings = _from_json(text) if text.lstrip().startswith("{") else _from_yaml(text)
    if unknown := sorted(settings.keys() & _NOT_UNDERSTOOD):
        raise ValueError(f"nepheletest does not understand its {', '.join(unknown)}")
    if not settings.get(_SERVER, "").startswith("https://"):
        raise ValueError("it has no server whose URL begins with https://")
    return Access(
        server=settings[_SERVER],
        authority=_decoded(settings, _AUTHORITY),
        certificate=_decoded(settings, _CERTIFICATE),
        key=_decoded(settings, _KEY),
        token=settings.get(_TOKEN),
    )


def _decoded(settings: dict[str, str], name: str) -> str | None:
    if name not in settings:
        return None
    try:
        return base64.b64decode(settings[name], validate=True).decode()
    except ValueError as error:
        raise ValueError(f"its {name} is not base64 of a text") from error


def _from_yaml(text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for line in text.splitlines():
        match = _SETTING.match(line)
        if match is None or match["name"] not in _UNDERSTOOD | _NOT_UNDERSTOOD:
            continue
        if match["name"] in settings:
            raise ValueError(f"it has {match['name']} more than once")
        settings[match["name"]] = match["value"].strip("\"'")
    return settings


def _from_json(text: str) -> dict[str, str]:
    config: dict[str, Any] = json.loads(text)
    settings: dict[str, str] = {}
    for plural, singular in [("clusters", "cluster"), ("users", "user")]:
        named = config.get(plural) or []
        if len(named) != 1:
            raise ValueError(f"it has {len(named)} {plural}, and not one")
        settings |= {name: str(value) for name, value in named[0][singular].items()}
    return settings
