"""The installation that the browser tests look at, with one person of each role."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from tests.live.installation import Installation
from tests.live.processes import Console

ROLES: Final = ("viewer", "editor", "owner")
PASSWORD: Final = "correct horse battery staple"


class Site:
    """Where it is and whom it knows: the user names are the names of the roles."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.url = f"http://127.0.0.1:{installation.port}"
        self._sessions = {
            role: installation.console.do("create_operator", name=role, role=role, password=PASSWORD) for role in ROLES
        }

    @property
    def console(self) -> Console:
        """The operator's process: `save`, `issue`, `revoke` and so on."""
        return self.installation.console

    @property
    def secret(self) -> str:
        """An access token that may call every endpoint."""
        return self.installation.secret

    def session_cookie(self, role: str) -> dict[str, Any]:
        """Return the cookie of somebody who has logged in."""
        return {
            "name": "sessionid",
            "value": self._sessions[role],
            "domain": str(urlsplit(self.url).hostname),
            "path": "/",
            "httpOnly": True,
            "sameSite": "Lax",
        }
