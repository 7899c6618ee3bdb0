"""A Redis of a test's own, to stop, kill, fill and empty; the suite's is not for that."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis

from config.embedded.redis_server import redis_program

START_SECONDS = 10


class OwnRedis:
    """A server on a Unix socket in a folder of its own, a child of this process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))  # not tmp_path: a socket's path must be short
        self._program = redis_program()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/redis.sock"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, protocol=2, socket_timeout=5)

    def start(self, *options: str) -> None:
        socket = self.folder / "redis.sock"
        socket.unlink(missing_ok=True)
        command = [self._program, "--port", "0", "--unixsocket", socket, "--dir", self.folder, "--save", "", *options]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, "the test's Redis did not start"
            time.sleep(0.01)

    def pause(self) -> None:
        """Let it hang: connections are still accepted by the kernel, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    # --- It answers, and takes no writes ----------------------------------------------------------------------------
    def fill(self) -> None:
        """Let it have no memory left, whatever it would evict."""
        self.client.config_set("maxmemory-policy", "noeviction")
        self.client.config_set("maxmemory", 1)

    def follow(self) -> None:
        """Make it a read-only replica, whose primary is away."""
        self.client.replicaof("127.0.0.1", 1)

    def lose_disk(self) -> None:
        """Start it anew with a disk that it cannot write to, and let it notice."""
        self.kill()
        disk = self.folder / "disk"
        disk.mkdir()
        self.start("--dir", str(disk))
        disk.rmdir()
        with self.client as client:
            client.config_set("save", "3600 1")
            client.bgsave()
            deadline = time.monotonic() + START_SECONDS
            while client.info("persistence")["rdb_last_bgsave_status"] != "err":
                assert time.monotonic() < deadline, "the test's Redis could save"
                time.sleep(0.01)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            with self.client as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


REFUSES_WRITES = [OwnRedis.fill, OwnRedis.follow, OwnRedis.lose_disk]
