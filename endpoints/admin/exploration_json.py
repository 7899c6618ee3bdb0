"""What the log explorer's script sends, read from JSON; each function raises Malformed for what is not as described."""

from __future__ import annotations

from datetime import UTC, datetime

from endpoints.admin.draft_json import Json, Malformed
from endpoints.exploring.exploring import Exploration, Mark
from endpoints.lql.editing import WrittenNumber


def read_exploration(body: Json) -> Exploration:
    return Exploration(
        source=read_text(body, "source"),
        project=read_text(body, "project").strip() or None,
        start=_time(body, "start"),
        end=_time(body, "end"),
        lql=read_text(body, "lql"),
        redact=read_flag(body, "redact"),
    )


def read_mark(body: Json) -> Mark | None:
    mark = body.get("mark")
    if mark is None:
        return None
    rows = mark.get("rows") if isinstance(mark, dict) else None
    if not isinstance(mark, dict) or not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise Malformed("mark is neither null nor a timestamp with a number of rows.")
    return Mark(_time(mark, "timestamp"), rows)


def read_path(body: Json) -> list[str]:
    keys = body.get("path")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Malformed("path is not a list of texts.")
    return keys


def read_value(body: Json) -> object:
    """Return the value to filter by, as `add_filter` takes it. Raises NotFilterable too."""
    value = body.get("value")
    if not isinstance(value, dict):
        raise Malformed("value is not an object.")
    match read_text(value, "kind"):
        case "text":
            return read_text(value, "text")
        case "number":
            return WrittenNumber(read_text(value, "text"))
        case "boolean":
            return read_text(value, "text") == "true"
        case "null":
            return None
        case _:
            raise Malformed("value.kind is none of text, number, boolean, null.")


def read_text(body: Json, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise Malformed(f"{name} is not a text.")
    return value


def read_flag(body: Json, name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise Malformed(f"{name} is not true or false.")
    return value


def _time(body: Json, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(read_text(body, name))
    except ValueError as error:
        raise Malformed(f"{name} is not a time in ISO 8601.") from error
    if not 1 < moment.year < 9999:  # so that a zone, or a step further, still has a date
        raise Malformed(f"{name} is not in the years 2 to 9998.")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
