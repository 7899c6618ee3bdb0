"""A web process hears of its end before granian waits for the answers that are on their way."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.files import PROJECT

PATIENCE_SECONDS = 20
PROGRAM = """
import os, signal, sys, threading
from config.ending import at_end, watch_for_end

told = threading.Event()
watch_for_end()
signal.signal(signal.SIGTERM, lambda *_: None)  # granian's, which come later
signal.signal(signal.SIGINT, lambda *_: None)
signal.signal(signal.SIGHUP, lambda *_: None)
at_end(lambda: print("before", flush=True))
at_end(told.set)
os.kill(os.getpid(), signal.SIGHUP)
print("ready", flush=True)
told.wait()
at_end(lambda: print("after", flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_everybody_is_told_once_also_who_asks_later(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert out == "before\nafter\n"
    assert process.returncode == 0
