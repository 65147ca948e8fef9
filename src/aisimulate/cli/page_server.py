"""A live result page, served to this machine alone."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from aisimulate.cli.exit_codes import DONE
from aisimulate.cli.recorded import run_of
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.report.page.render import page_html
from aisimulate.spica.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

_LOOPBACK = "127.0.0.1"


def serve_page(path: Path, *, port: int, gpu_hour_price: float | None) -> int:
    """Serve the page of the run in `path` until Ctrl-C, which is how it ends well.

    Raises InputError when the port cannot be had or the run cannot be read.
    """
    run_of(path)
    try:
        bound = page_server(path, port=port, gpu_hour_price=gpu_hour_price)
    except OSError as error:
        raise InputError(
            f"--port {port}: {error.strerror or error}; without --port any free one is taken"
        ) from error
    with bound as server:
        say(f"http://{_LOOPBACK}:{server.server_port}/ (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return DONE
    return DONE


def page_server(path: Path, *, port: int, gpu_hour_price: float | None) -> ThreadingHTTPServer:
    """Bind a server of the page to the loopback address."""
    return ThreadingHTTPServer((_LOOPBACK, port), partial(_Handler, path, gpu_hour_price))


class _Handler(BaseHTTPRequestHandler):
    """Answers `/` with the page and `/state` with how far the search is; nothing else is there."""

    server_version = "aisimulate"
    sys_version = ""

    def __init__(self, path: Path, gpu_hour_price: float | None, *rest: Any) -> None:  # noqa: ANN401
        self._path = path
        self._gpu_hour_price = gpu_hour_price
        super().__init__(*rest)

    def handle(self) -> None:
        """Answer a connection. A browser that leaves before it has the answer is no failure."""
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """Answer one request."""
        self._answer(*self._response())

    def _response(self) -> tuple[HTTPStatus, str, str]:
        """Choose status, kind and text of the answer."""
        if not self._is_addressed_here():
            return HTTPStatus.FORBIDDEN, "text/plain", "this server is for its own machine\n"
        try:
            return self._routed()
        except (AISimulateError, ValueError, OSError) as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{error}\n"

    def _routed(self) -> tuple[HTTPStatus, str, str]:
        if self.path == "/":
            text = page_html(run_of(self._path), gpu_hour_price=self._gpu_hour_price, live=True)
            return HTTPStatus.OK, "text/html", text
        if self.path == "/state":
            with Ledger.open_ledger(self._path) as ledger:
                return HTTPStatus.OK, "application/json", json.dumps(ledger.progress())
        return HTTPStatus.NOT_FOUND, "text/plain", "there is only /\n"

    def _is_addressed_here(self) -> bool:
        """Whether the browser was sent here by our own name: another site's may lead here too."""
        port = self.connection.getsockname()[1]
        return self.headers.get("Host") in (f"{_LOOPBACK}:{port}", f"localhost:{port}")

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - as its base has it
        """Keep the terminal quiet."""
