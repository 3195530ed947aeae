"""A small HTTP client for scripts: JSON over urllib, without the envelope."""

import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

TIMEOUT_SECONDS: Final = 15.0

_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Uses no proxy: the service is on this machine."""


class ApiError(RuntimeError):
    """An error response: its HTTP `status` and whole `envelope`."""

    def __init__(self, request: str, status: int, envelope: dict[str, Any]) -> None:
        super().__init__(f"{request}: {status} {envelope.get('code')} {envelope.get('message')}")
        self.status = status
        self.envelope = envelope


class Api:
    """Calls `{base_url}/api/v1{path}`. Raises ApiError for an error response, OSError without a response."""

    timeout_seconds = TIMEOUT_SECONDS

    def __init__(self, base_url: str, token: str | None = None, **headers: str) -> None:
        self.base_url = base_url
        self._headers = {"Content-Type": "application/json", **headers}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The envelope's `data`."""
        return self._call("GET", f"{path}?{urllib.parse.urlencode(query)}" if query else path, None)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The envelope's `data`."""
        return self._call("POST", path, json.dumps(body).encode())

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The envelope's `data`."""
        return self._call("PUT", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.base_url}/api/v1{path}", body, self._headers, method=method)
        try:
            with _OPENER.open(request, timeout=self.timeout_seconds) as answer:
                envelope = json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                envelope = json.loads(text)
            except ValueError:
                envelope = {"message": text.decode(errors="replace")[:200]}
            raise ApiError(f"{method} {path}", error.code, envelope) from None
        data: dict[str, Any] = envelope["data"]
        return data


def answers(url: str) -> bool:
    """Whether a GET of `url` returns 200."""
    try:
        with _OPENER.open(url, timeout=TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def accepts(port: int) -> bool:
    """Whether this machine takes connections at the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
