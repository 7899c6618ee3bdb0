"""A provider of OpenID Connect in a process of its own: `tests/live/changeable_provider.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final
from urllib.parse import urljoin

import requests

from tests.files import PROJECT

PATIENCE_SECONDS: Final = 60  # for the machine
CLIENT_ID, CLIENT_SECRET = "the-admin", "a secret of the client"
SETTINGS: Final = {
    "OIDC_CLIENT_ID": CLIENT_ID,
    "OIDC_CLIENT_SECRET": CLIENT_SECRET,
    "OIDC_NAME": "Example Login",
    "OIDC_ROLES": "log-viewers=viewer,log-editors=editor,log-owners=owner,log-admins=superuser",
}


class IdentityProvider:
    """The process and its people, of whom there are none at first; use it as a context manager."""

    def __enter__(self) -> IdentityProvider:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.live.changeable_provider"],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.issuer = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The settings of an installation whose people log in here."""
        return {"OIDC_ISSUER": self.issuer, **SETTINGS}

    def add(self, subject: str, **claims: Any) -> None:
        """Add somebody, or replace what is said about them."""
        self._put(f"/users/{subject}", claims)

    def change_answers(self, **changes: Any) -> None:
        """Change the next answers, or with no changes nothing any more.

        claims: those that the ID token gets; None takes one away. key: what signs it, see `Answers.sign`. discovery,
        userinfo: what those documents get. failing: addresses that answer 500.
        """
        self._put("/changes", changes)

    def log_in(self, address: str, subject: str) -> str:
        """Log somebody in at an address of the provider, as its form does; return where the browser is sent."""
        answer = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 302, answer.text
        return urljoin(self.issuer, answer.headers["Location"])

    def redeemed(self) -> list[dict[str, str]]:
        """Return the form of each request to the token endpoint."""
        seen: list[dict[str, str]] = requests.get(f"{self.issuer}/requests", timeout=PATIENCE_SECONDS).json()
        return seen

    def _put(self, path: str, body: Mapping[str, Any]) -> None:
        answer = requests.put(f"{self.issuer}{path}", json=body, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 204, answer.text
