"""Forms as the browser sends them."""

from __future__ import annotations

from typing import Any

import pytest

ENDPOINT = {
    "name": "test.endpoint",
    "description": "",
    "sql": "SELECT @project AS project, @level AS level",
    "tenant_parameter": "",
    "max_rows": "1000",
    "stream_rows": "0",
    "statement_timeout_seconds": "15",
    "cache_seconds": "0",
    "warm_every_seconds": "0",
    "sandbox_dialect": "postgresql",
    "lql_chart_column": "aggregate",
    "timestamps_as": "iso",
}


class EndpointFields:
    """What the browser sends for an endpoint and the rows of its parameters."""

    def __call__(self, *parameters: dict[str, Any], initial: int = 0, **fields: Any) -> dict[str, str]:
        data = {
            **ENDPOINT,
            "parameters-TOTAL_FORMS": str(len(parameters)),
            "parameters-INITIAL_FORMS": str(initial),
            **fields,
        }
        for number, parameter in enumerate(parameters):
            for name, value in {"type": "text", **parameter}.items():
                data[f"parameters-{number}-{name}"] = str(value)
        return data


@pytest.fixture
def fields() -> EndpointFields:
    return EndpointFields()
