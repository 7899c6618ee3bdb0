"""What ends a browser token ends it for every web process, from the moment the process that did it has returned."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.faults.test_changes import CALLERS, Turn, hammering
from tests.live.installation import Installation


@pytest.mark.parametrize(
    "command",
    ["revoke", "edit"],  # an edit that leaves the right to issue out
)
def test_no_call_after_the_end_of_a_browser_token(installation: Installation, name: str, command: str) -> None:
    installation.save(name, "SELECT 1 AS one", cache_seconds=600)
    for number in range(3):
        token_name = f"{name}.{number}"
        secret = installation.console.do("issue", name=token_name, may_issue=True)
        body = json.dumps({"endpoints": [name]}).encode()
        with installation.caller(secret=secret) as issuer:
            issued = issuer.request("POST", "/api/tokens", body=body, Content_Type="application/json")
        token = json.loads(issued.body)["result"][0]["token"]
        turn = Turn()
        with ExitStack() as stack:
            callers = [stack.enter_context(installation.caller(secret=token)) for _ in range(CALLERS)]
            with hammering(callers, turn, lambda caller: caller.query(name)) as seen:
                with installation.caller(secret=token) as another:
                    assert another.query(name).status == 200
                turn.change(1, lambda token_name=token_name: installation.console.do(command, name=token_name))
                for _ in range(4):
                    with installation.caller(secret=token) as another:
                        assert another.query(name).code == "not_authenticated"
        for each in seen:
            allowed = {200} if each.last == 0 else {401} if each.first == 1 else {200, 401}
            assert each.answer.status in allowed, each
        assert {each.answer.status for each in seen} == {200, 401}
