"""The settings refuse to start a production service with insecure values, and load without any server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.files import PROJECT

URLS = {
    "DATABASE_URL": "postgresql://service:secret@db.example.org:5433/service?sslmode=require",
    "LOGS_DATABASE_URL": "postgresql://owner:secret@db.example.org/logs",
    "LOGS_GATE_URL": "postgresql://gate:p%40ss@db.example.org/logs",
    "REDIS_URL": "redis://cache.example.org:6379/3",
}


def load_settings(expression: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Print an expression over the settings, loaded in a process of its own with this environment alone."""
    return subprocess.run(
        [sys.executable, "-c", f"from config import settings as s; print({expression})"],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "ENDPOINTS_LOCAL_DIR": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("secret_key", ["", "short", "insecure-secret-key-for-debug-only"])
def test_refuses_to_load_without_a_secret_key_of_ones_own(secret_key: str) -> None:
    loaded = load_settings("s.SECRET_KEY", **({"SECRET_KEY": secret_key} if secret_key else {}))
    assert loaded.returncode != 0
    assert "SECRET_KEY must be set to at least 40 random characters" in loaded.stderr


def test_debug_needs_no_secret_key_and_no_server() -> None:
    loaded = load_settings("s.DEBUG, bool(s.SECRET_KEY), s.HTTPS_ONLY", DEBUG="true")
    assert (loaded.returncode, loaded.stdout) == (0, "True True False\n")


@pytest.mark.parametrize("word", ["maybe", "tru", "2", "None"])
def test_a_switch_that_is_neither_on_nor_off_is_refused(word: str) -> None:
    loaded = load_settings("s.DEBUG", SECRET_KEY="x" * 50, DEBUG=word)
    assert loaded.returncode != 0
    assert f"DEBUG must be true or false, not {word.lower()!r}." in loaded.stderr


@pytest.mark.parametrize(("word", "is_on"), [("TRUE", True), ("on", True), ("0", False), ("No", False), ("", False)])
def test_a_switch_is_written_in_several_ways(word: str, is_on: bool) -> None:
    assert load_settings("s.DEBUG", SECRET_KEY="x" * 50, DEBUG=word).stdout == f"{is_on}\n"


def test_production_travels_over_https_only() -> None:
    loaded = load_settings(
        "s.DEBUG, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_SSL_REDIRECT, s.ALLOWED_HOSTS",
        SECRET_KEY="x" * 50,
    )
    assert loaded.stdout == "False True True True []\n"


def test_the_four_urls_name_servers_of_ones_own() -> None:
    loaded = load_settings(
        "s.DATABASES['default']['HOST'], s.DATABASES['default']['PORT'], s.DATABASES['default']['OPTIONS']['sslmode'],"
        " s.DATABASES['logs']['USER'], s.LOGS_GATE['password'], s.CACHES['default']['LOCATION'], s.CELERY_BROKER_URL",
        SECRET_KEY="x" * 50,
        **URLS,
    )
    expected = ["db.example.org", "5433", "require", "owner", "p@ss", URLS["REDIS_URL"], URLS["REDIS_URL"]]
    assert loaded.stdout.split() == expected
