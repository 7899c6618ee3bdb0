"""A byte budget for results, kept by PostgreSQL itself: it stops sending before more than the budget has left it.

The query gets one more column, which adds up the text of the rows so far and fails in the row that goes over. So the
whole call stays one round trip, and neither side ever holds more than the budget and one row.
"""

from __future__ import annotations

from typing import Final

# What CAST(… AS integer) complains about; nothing in a consumer's query is hurt if it provokes the same.
MARKER: Final = "result over its byte budget"
_PREFIX: Final = (
    "SELECT result.*, CAST(CASE WHEN sum(octet_length(CAST(ROW(result.*) AS text)))"
    " OVER (ROWS UNBOUNDED PRECEDING) > {max_bytes:d} THEN '{marker}' ELSE '0' END AS integer) FROM (\n"
)


def limit_bytes(sql: str, *, max_bytes: int) -> tuple[str, int]:
    """Return a query around one query that fails once its rows have more bytes of text, and how far it moves the text.

    Its last column is the sentinel, to be dropped. The rows keep their order: a window without ORDER BY sorts nothing.
    """
    prefix = _PREFIX.format(max_bytes=max_bytes, marker=MARKER)
    return f"{prefix}{sql}\n) AS result", len(prefix)


def is_over_budget(sqlstate: str, message: str) -> bool:
    """Tell whether PostgreSQL's error is that of the byte budget."""
    return sqlstate == "22P02" and MARKER in message
