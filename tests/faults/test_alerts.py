"""An alert in a whole installation: calls fail, beat and a worker notice, a webhook is told."""

from __future__ import annotations

import orjson

from endpoints.alerting.webhooks import signature
from tests.endpoints.alerting.receiver import receiving
from tests.live.calls import until
from tests.live.installation import Installation

MINUTE_AND_MORE_SECONDS = 200  # beat checks each minute, and calls are in the audit log a few seconds after them


def test_failing_calls_are_told_to_the_webhook(installation: Installation, name: str) -> None:
    installation.save(name, "SELECT 1 / (@zero::int) AS one", parameters={"zero": "integer"})
    with receiving() as receiver:
        secret = installation.console.do(
            "make_alert",
            endpoint=name,
            name=f"alert {name}",
            condition="failed_count",
            threshold=3,
            minutes=60,
            webhook_url=receiver.url,
        )
        with installation.caller() as caller:
            assert {caller.query(name, {"zero": 0}).status for _ in range(4)} == {500}
        with installation.worker(ALERT_WEBHOOK_PRIVATE="true"), installation.beat():
            until(lambda: bool(receiver.received), seconds=MINUTE_AND_MORE_SECONDS)
    _, headers, body = receiver.received[0]
    assert headers["X-Alert-Signature"] == signature(secret, int(headers["X-Alert-Timestamp"]), body)
    message = orjson.loads(body)
    assert (message["kind"], message["endpoint"], message["value"]) == ("firing", name, 4.0)
