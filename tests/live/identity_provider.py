"""A provider of OpenID Connect in a process of its own: oidc-provider-mock, whose answers a test may change.

Run as a program it serves until it is killed and prints its port. It knows nobody until a test adds somebody.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
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
    """The process and its people; use it as a context manager."""

    def __enter__(self) -> IdentityProvider:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.live.identity_provider"],
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
    def environment(self) -> dict[str, str]:
        """The settings of an installation whose people log in here."""
        return {"OIDC_ISSUER": self.issuer, **SETTINGS}

    def add(self, subject: str, **claims: Any) -> None:
        """Add somebody, or replace what is said about them."""
        self._put(f"/users/{subject}", claims)

    def change_answers(self, **changes: Any) -> None:
        """Change the next answers, or with no changes nothing any more.

        claims: those that the ID token gets; None takes one away. key: what signs it, see `_sign`. discovery,
        userinfo: what those documents get. failing: addresses that answer 500. requests: is counted in any case.
        """
        self._put("/changes", changes)

    def log_in(self, address: str, subject: str) -> str:
        """Log somebody in at an address of the provider, as its form does; return where the browser is sent."""
        answer = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 302, answer.text
        return urljoin(self.issuer, answer.headers["Location"])

    def requests(self) -> list[dict[str, Any]]:
        """Return the form and the headers of each request to the token endpoint."""
        answer = requests.get(f"{self.issuer}/requests", timeout=PATIENCE_SECONDS)
        seen: list[dict[str, Any]] = answer.json()
        return seen

    def _put(self, path: str, body: Mapping[str, Any]) -> None:
        answer = requests.put(f"{self.issuer}{path}", json=body, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 204, answer.text


# --- The program ------------------------------------------------------------------------------------------------------
def _serve() -> None:
    import flask
    import jwt
    import oidc_provider_mock
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm
    from werkzeug.serving import make_server

    app = oidc_provider_mock.app()
    changes: dict[str, Any] = {}
    seen: list[dict[str, Any]] = []
    rsa_key, foreign_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    ec_key = ec.generate_private_key(ec.SECP256R1())

    @app.put("/changes")
    def change() -> tuple[str, int]:
        changes.clear()
        changes.update(flask.request.json or {})
        return "", 204

    @app.get("/requests")
    def tell() -> Any:
        return flask.jsonify(seen)

    @app.before_request
    def fail() -> Any:
        if flask.request.path == "/oauth2/token":
            seen.append({"form": flask.request.form.to_dict(), "authorization": str(flask.request.authorization)})
        return ("gone", 500) if flask.request.path in changes.get("failing", ()) else None

    def sign(claims: dict[str, Any]) -> str:
        match changes.get("key", "rsa"):
            case "rsa":
                return jwt.encode(claims, rsa_key, "RS256", {"kid": "rsa"})
            case "ec":
                return jwt.encode(claims, ec_key, "ES256", {"kid": "ec"})
            case "without kid":
                return jwt.encode(claims, rsa_key, "RS256")
            case "foreign":  # not among the provider's keys, but says so
                return jwt.encode(claims, foreign_key, "RS256", {"kid": "rsa"})
            case "unknown":
                return jwt.encode(claims, foreign_key, "RS256", {"kid": "unknown"})
            case "secret":
                return jwt.encode(claims, CLIENT_SECRET.ljust(32), "HS256", {"kid": "rsa"})
            case "none":
                return jwt.encode(claims, None, "none")
        raise ValueError(changes["key"])

    @app.after_request
    def apply(response: Any) -> Any:
        path = flask.request.path
        if response.status_code != 200:
            return response
        if path == "/oauth2/token" and ("claims" in changes or "key" in changes):
            body = json.loads(response.get_data())
            claims = jwt.decode(body["id_token"], options={"verify_signature": False})
            claims = {name: value for name, value in {**claims, **changes.get("claims", {})}.items() if value is not None}
            response.set_data(json.dumps({**body, "id_token": sign(claims)}))
        if path == "/jwks":
            keys = json.loads(response.get_data())["keys"]
            keys.append({**json.loads(RSAAlgorithm.to_jwk(rsa_key.public_key())), "kid": "rsa"})
            keys.append({**json.loads(ECAlgorithm.to_jwk(ec_key.public_key())), "kid": "ec"})
            keys.append({"kty": "oct", "kid": "rsa", "k": "YSBzZWNyZXQ", "alg": "HS256"})
            response.set_data(json.dumps({"keys": keys}))
        for part, address in (("discovery", "/.well-known/openid-configuration"), ("userinfo", "/userinfo")):
            if path == address and part in changes:
                response.set_data(json.dumps({**json.loads(response.get_data()), **changes[part]}))
        return response

    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve()
