"""A server of S3 that knows who may read: moto's, in a process of its own, with buckets that the requester pays for.

rclone's knows one key for all, and neither access lists nor requests without a signature. moto does not know of
requester pays: before it, each request to a bucket whose name begins with `paid` needs the header that says so.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

REFUSAL = b"<Error><Code>AccessDenied</Code><Message>the requester is to pay</Message></Error>"

PATIENCE = 60.0
"""Seconds that the process may take to begin, and to end."""


@contextmanager
def serving_moto() -> Iterator[str]:
    """Run the server, and yield its endpoint."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert ready, f"moto did not begin within {PATIENCE} s"
            yield process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait(PATIENCE)


def _asking_for_the_payer(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/paid") and environ.get("HTTP_X_AMZ_REQUEST_PAYER") != "requester":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [REFUSAL]
        return app(environ, start_response)

    return guarded


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = _asking_for_the_payer(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    _serve()
