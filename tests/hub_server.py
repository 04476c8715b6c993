"""
A Hub on this machine, for tests: models and data sets behind the HTTP interface that `huggingface_hub` speaks.

    with HubServer() as hub:
        token = hub.add_user("ada")
        subprocess.run([sys.executable, "client.py"], env=os.environ | hub.environment(folder, token))
        assert "config.json" in hub.files("ada/model")

It keeps repositories in memory, with commits, branches, tags, large files, private and gated access, and answers what
is missing or forbidden with the codes of the real Hub, so that the client raises its usual exceptions. Not there: pull
requests, Xet storage, uploads in several parts, pages of long lists.
"""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hub_routes import Hub, Request
from huggingface_hub import constants


class HubServer(Hub):
    """A Hub that listens on a free port of 127.0.0.1 between `with HubServer() as hub:` and the end of the block."""

    def __init__(self):
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.hub = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        super().__init__(f"http://127.0.0.1:{self.server.server_port}")

    def __enter__(self) -> "HubServer":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.close_connections()
        self.server.server_close()  # waits for the threads of the connections
        self.thread.join()

    def environment(self, folder: Path, token: str | None = None) -> dict[str, str]:
        """Variables of a process that knows this Hub alone, with caches in `folder`, and the token of its user."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(folder),
            "HF_MODULES_CACHE": str(folder / "modules"),
            "HF_TOKEN": token or "",
            "HF_HUB_OFFLINE": "0",
            # otherwise the client takes large files to a storage server of another kind
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }


def let_clients_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Allow clients in the process of the tests, which is offline otherwise.

    They must be told the address, as in `HfApi(hub.endpoint, token=token)`: it is too late for `HF_ENDPOINT`, which is
    read when `huggingface_hub` is imported.
    """
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)


class _Server(ThreadingHTTPServer):
    """Knows its open connections, which clients keep for further requests, so that it can end them."""

    daemon_threads = False
    hub: HubServer

    def __init__(self, *args):
        self.connections: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request, client_address):
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client has been faster
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # header and body are two packets, the second of which would wait for a receipt of the first
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        url, token = urlsplit(self.path), self.headers.get("Authorization", "").removeprefix("Bearer ")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hub = self.server.hub
        request = Request(
            user=hub.users.get(token),
            has_unknown_token=bool(token) and token not in hub.users,
            query=parse_qs(url.query),
            body=body,
            byte_range=self.headers.get("Range", ""),
        )
        answer = hub.answer(self.command, url.path, request)
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(answer.data)), **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.data)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_) -> None:
        """Nothing: `Hub.requests` has it."""
