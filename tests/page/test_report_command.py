"""`aisimulate report`: files, the live server, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import threading

import pytest

from aisimulate.cli.page_server import page_server
from aisimulate.cli.report import main
from tests.page.made_run import made_run


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path))
    made_run(tmp_path / "made.sqlite", 12)
    return tmp_path / "made.sqlite"


def test_it_writes_a_file_named_like_the_run(ledger, capsys):
    assert main(["made"]) == 0
    assert re.fullmatch(r"wrote made\.html \(\d+\.\d MB\)\n", capsys.readouterr().out)
    assert (ledger.parent / "made.html").read_text().startswith("<!doctype html>")


def test_it_writes_where_it_is_told(ledger, tmp_path):
    assert main([str(ledger), "-o", str(tmp_path / "page.html"), "--gpu-hour-price", "3"]) == 0
    assert "Cost per million output tokens" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["nothing"], "there is no run 'nothing'"),
        (["made", "-o", "none/page.html"], "is not a directory"),
        (["made", "-o", "made.sqlite"], "would overwrite the input"),
        (["made", "--port", "80"], "--port: has no effect without --serve"),
        (["made", "--serve", "-o", "x.html"], "--output: has no effect with --serve"),
        (["made", "--serve", "--overwrite"], "--overwrite: has no effect with --serve"),
    ],
)
def test_what_it_refuses(ledger, capsys, options, problem):
    assert main(options) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_only_a_page_of_ours_is_replaced_unasked(ledger, capsys):
    page = ledger.parent / "page.html"
    assert main(["made", "-o", str(page)]) == 0
    assert main(["made", "-o", str(page), "--gpu-hour-price", "3"]) == 0
    assert "Cost per million output tokens" in page.read_text()
    page.write_text("# my notes\n")
    assert main(["made", "-o", str(page)]) == 2
    assert "exists already, and is no page of aisimulate" in capsys.readouterr().err
    assert page.read_text() == "# my notes\n"
    assert main(["made", "-o", str(page), "--overwrite"]) == 0
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("value", ["-1", "nan", "x"])
def test_a_price_is_a_number(ledger, capsys, value):
    with pytest.raises(SystemExit) as ended:
        main(["made", "--gpu-hour-price", value])
    assert ended.value.code == 2
    assert "is not a finite number >= 0" in capsys.readouterr().err


@pytest.fixture
def ask(ledger):
    """Ask a live server; return (status, headers, text)."""
    with page_server(ledger, port=0, gpu_hour_price=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def get(path, host=None, method="GET"):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", f"127.0.0.1:{server.server_port}" if host is None else host)
            connection.endheaders()
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, dict(answer.getheaders()), text

        yield get
        server.shutdown()


def test_a_taken_port_is_told(ledger, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["made", "--serve", "--port", str(port)]) == 2
    assert capsys.readouterr().err == (
        f"aisimulate report: error: --port {port}: Address already in use; "
        "without --port any free one is taken\n"
    )


@pytest.mark.parametrize("request_bytes", [b"GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n", b"GE"])
def test_a_browser_that_leaves_early_is_no_traceback(ledger, capfd, request_bytes):
    with page_server(ledger, port=0, gpu_hour_price=None) as server:
        port = server.server_port
        with socket.create_connection(("127.0.0.1", port)) as browser:
            browser.sendall(request_bytes.replace(b"{port}", str(port).encode()))
            # Closing sends a reset at once, so that the answer cannot be delivered.
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.daemon_threads = False  # closing the server waits for the answer
        server.handle_request()
    assert capfd.readouterr().err == ""


def test_the_live_page_and_its_state(ask):
    status, headers, text = ask("/")
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert "connect-src 'self'" in text
    assert json.loads(ask("/state")[2]) == {"attempts": 12, "status": "done"}
    assert ask("/made.sqlite")[0] == 404


def test_only_this_machine_is_answered(ask):
    assert ask("/", host="evil.example:80")[0] == 403
    assert ask("/state", host="")[0] == 403
    assert ask("/", method="POST")[0] == 501


def test_a_run_that_breaks_is_told(ask, ledger):
    ledger.write_text("no ledger")
    status, _, text = ask("/")
    assert status == 500
    assert "is damaged" in text
