"""Debian's nginx with a configuration of deploy/nginx, before any port of this machine."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.files import PROJECT
from tests.live.calls import until
from tests.live.installation import free_port

NGINX: Final = "/usr/sbin/nginx"
OF_COMPOSE, OF_DEBIAN = CONFIGURATIONS = ("nginx.conf", "log-query-endpoints.conf")
# Debian's own file, in which the site stands; what it logs by default is what the site must not let it log.
_DEBIAN: Final = """\
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 768; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    include {folder}/site.conf;
}}
"""


@contextmanager
def nginx(name: str, *, upstream: int) -> Iterator[tuple[int, Path]]:
    """Run it without TLS before this port; yield its own port and the folder of everything that it writes."""
    port, redirecting = free_port(), free_port()
    # Not pytest's folders: they are closed to the account that nginx's workers have.
    folder = Path(tempfile.mkdtemp(prefix="endpoints-nginx-"))
    folder.chmod(0o755)
    text = (PROJECT / "deploy" / "nginx" / name).read_text(encoding="utf-8")
    replaced = {
        OF_COMPOSE: {
            "server web:8000;": f"server 127.0.0.1:{upstream};",
            "listen 8000;": f"listen 127.0.0.1:{port};",
            "/tmp/nginx": f"{folder}/nginx",
            "/dev/stderr": f"{folder}/error.log",
            "worker_processes auto;": "worker_processes 1;",
        },
        OF_DEBIAN: {
            "server 127.0.0.1:8000;": f"server 127.0.0.1:{upstream};",
            "listen 80;": f"listen 127.0.0.1:{redirecting};",
            "listen 443 ssl;": f"listen 127.0.0.1:{port};",
            "/var/log/nginx": str(folder),
        },
    }[name]
    for ours, here in replaced.items():
        assert ours in text, ours
        text = text.replace(ours, here)
    if name == OF_DEBIAN:
        (folder / "site.conf").write_text(re.sub(r"^\s*ssl_.*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
        (folder / "redirecting").write_text(str(redirecting), encoding="ascii")
        text = _DEBIAN.format(folder=folder)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    with subprocess.Popen(
        [
            NGINX,
            "-p",
            str(folder),
            "-e",
            str(folder / "error.log"),
            "-c",
            str(folder / "nginx.conf"),
            "-g",
            "daemon off;",
        ],
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            until(lambda: _is_listening(port), seconds=10)
            yield port, folder
        finally:
            process.terminate()
            process.wait(10)
            shutil.rmtree(folder)


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
