"""The few requests that this package sends to an API server: JSON, with a client certificate or a token."""

import http.client
import json
import os
import ssl
import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

from nepheletest._errors import NepheleError
from nepheletest._kubeconfig import Access

_REQUEST_SECONDS_MAX = 10.0

Object = dict[str, Any]


class Api:
    """An API server. Each request has a connection of its own, so threads can share this."""

    def __init__(self, access: Access, folder: Path) -> None:
        """The folder is private and temporary: `ssl` reads a client certificate only from a file."""
        url = urllib.parse.urlsplit(access.server)
        self._host, self._port, self._prefix = url.hostname or "", url.port, url.path.rstrip("/")
        self._tls = _tls(access, folder)
        self._headers = {"Accept": "application/json"}
        if access.token is not None:
            self._headers["Authorization"] = f"Bearer {access.token}"

    def get(self, path: str) -> Object | None:
        """An object, or a list of objects. None if it does not exist."""
        status, answer = self._request("GET", path)
        return None if status == 404 else _checked(f"read {path}", status, answer)

    def create(self, path: str, value: Object) -> Object:
        """Adds an object to a collection."""
        return _checked(f"create an object in {path}", *self._request("POST", path, value, "application/json"))

    def merge(self, path: str, patch: Object) -> Object:
        """Changes some fields of an object."""
        return _checked(f"change {path}", *self._request("PATCH", path, patch, "application/merge-patch+json"))

    def _request(
        self, method: str, path: str, body: Object | None = None, kind: str | None = None
    ) -> tuple[int, bytes]:
        headers = self._headers if kind is None else {**self._headers, "Content-Type": kind}
        content = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=_REQUEST_SECONDS_MAX, context=self._tls
        )
        try:
            connection.request(method, self._prefix + path, content, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NepheleError(f"failed to reach the API server at {self._host}:{self._port}: {error!r}") from error
        finally:
            connection.close()


def _tls(access: Access, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.authority)
    if access.certificate is not None and access.key is not None:
        # Only its owner can read it.
        descriptor, path = tempfile.mkstemp(prefix=".client-", suffix=".pem", dir=folder)
        try:
            with open(descriptor, "w") as file:
                file.write(f"{access.certificate.rstrip()}\n{access.key}")
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
    return context


def _checked(what: str, status: int, answer: bytes) -> Object:
    """The answer to a request, if it was successful."""
    if status >= 300:
        raise NepheleError(f"failed to {what}: {_message(answer)} ({status})")
    value: Object = json.loads(answer)
    return value


def _message(answer: bytes) -> str:
    """What an API server says about a failure."""
    text = answer[:1024].decode(errors="replace")
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return text
