import http.server
import threading

import pytest
from sources_made import FILES, md5

from capsnet.data.sources.locate import Source


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A data set of two files, with an empty cache and no mirror but what a test sets up."""
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    digests = {name: md5(content) for name, content in FILES.items()}
    return Source("toy", digests, digests, (), str(tmp_path / "system"))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "toy"


@pytest.fixture
def serve(tmp_path):
    """Start web servers on folders or with handlers of a test's own; give their addresses."""
    servers = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer(self)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/data/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
