"""The program of `tests/live/identity_provider.py`: oidc-provider-mock, whose answers a test may change.

It prints its port and serves until it is killed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import flask
import jwt
import oidc_provider_mock
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from werkzeug.serving import make_server

TOKEN, JWKS = "/oauth2/token", "/jwks"
DOCUMENTS = {"/.well-known/openid-configuration": "discovery", "/userinfo": "userinfo"}


class Answers:
    """What the provider's answers become, and what its token endpoint was asked."""

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}
        self.seen: list[dict[str, Any]] = []
        self._rsa, self._foreign = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
        self._ec = ec.generate_private_key(ec.SECP256R1())
        self._signatures: dict[str, tuple[Any, str, dict[str, str]]] = {
            "rsa": (self._rsa, "RS256", {"kid": "rsa"}),
            "ec": (self._ec, "ES256", {"kid": "ec"}),
            "without kid": (self._rsa, "RS256", {}),
            "foreign": (self._foreign, "RS256", {"kid": "rsa"}),  # none of the provider's keys, but says so
            "unknown": (self._foreign, "RS256", {"kid": "unknown"}),
            "secret": ("x" * 32, "HS256", {"kid": "hmac"}),
            "none": (None, "none", {}),
        }

    def note(self) -> Any:
        if flask.request.path == TOKEN:
            self.seen.append(flask.request.form.to_dict())
        return ("gone", 500) if flask.request.path in self.changes.get("failing", ()) else None

    def apply(self, response: Any) -> Any:
        path = flask.request.path
        if response.status_code != 200 or path not in (TOKEN, JWKS, *DOCUMENTS):
            return response
        body = json.loads(response.get_data())
        if path == JWKS:
            body["keys"] += self._published()
        elif path == TOKEN:
            body["id_token"] = self.sign(body["id_token"])
        else:
            body.update(self.changes.get(DOCUMENTS[path], {}))
        response.set_data(json.dumps(body))
        return response

    def sign(self, id_token: str) -> str:
        """Return the ID token as it is, or with the claims and the signature that a test wants."""
        if not {"claims", "key"} & self.changes.keys():
            return id_token
        claims = {**jwt.decode(id_token, options={"verify_signature": False}), **self.changes.get("claims", {})}
        # Written by hand: PyJWT makes no token whose claims have the wrong type.
        key, algorithm, headers = self._signatures[self.changes.get("key", "rsa")]
        said = json.dumps({name: value for name, value in claims.items() if value is not None}).encode()
        return jwt.PyJWS().encode(said, key, algorithm, {"typ": "JWT", **headers})

    def _published(self) -> list[dict[str, Any]]:
        return [
            {**json.loads(RSAAlgorithm.to_jwk(self._rsa.public_key())), "kid": "rsa"},
            {**json.loads(ECAlgorithm.to_jwk(self._ec.public_key())), "kid": "ec"},
            # A key that no public document should have; whoever took it would take the tokens of anybody.
            {"kty": "oct", "kid": "hmac", "k": "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg", "alg": "HS256"},
        ]


def serve() -> None:
    app, answers = oidc_provider_mock.app(), Answers()
    app.before_request(answers.note)
    app.after_request(answers.apply)

    @app.put("/changes")  # type: ignore[untyped-decorator]
    def change() -> tuple[str, int]:
        answers.changes = flask.request.json or {}
        return "", 204

    @app.get("/requests")  # type: ignore[untyped-decorator]
    def tell() -> Any:
        return flask.jsonify(answers.seen)

    server = make_server("127.0.0.1", 0, app, threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    serve()
