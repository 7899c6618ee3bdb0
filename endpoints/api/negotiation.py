"""Which format an Accept header asks for, RFC 9110 section 12.5.1, or the argument `format` by its short name.

Django's own reading takes `text/csv; charset=utf-8` for another type than text/csv and forgets what `q=0` excludes;
REST framework's has no q values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from endpoints.errors import InvalidParameters, NotAcceptable
from endpoints.results.encoding import offered_formats
from endpoints.results.outcomes import ResultFormat

LONGEST_REMEMBERED: Final = 8 * 1024  # characters
OFFERED: Final = offered_formats()
FORMAT: Final = "format"  # the argument, for browsers and programs that cannot send Accept
_SENT_PARAMETERS: Final = {"charset": "utf-8"}  # of the Content-Type of every answer that is text
# A comma in a quoted parameter separates nothing; a quotation mark without its partner quotes the rest.
_RANGES: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*(?:"|\\?$))+', re.DOTALL)
_PARAMETERS: Final = re.compile(r';[ \t]*([^=;"\s]+)=("(?:[^"\\]|\\.)*"|[^;]*)')
_QUALITY: Final = re.compile(r"[0-9]?(?:\.[0-9]*)?", re.ASCII)


class NoNegotiation(BaseContentNegotiation):
    """Leaves the Accept header to the view (DEFAULT_CONTENT_NEGOTIATION_CLASS): its formats are no renderers, and who
    calls is checked before anything is said of formats."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class _Precision(IntEnum):
    """How closely a range names a format: the closest one decides about it."""

    ANYTHING = 0  # */*
    MAIN_TYPE = 1  # text/*
    OTHER_PARAMETERS = 2  # text/csv; header=absent: none of the parameters makes it another type
    TYPE = 3  # text/csv
    TYPE_AND_PARAMETERS = 4  # text/csv; charset=utf-8


class _Range(NamedTuple):
    quality: float
    precision: _Precision
    place: int  # how far from the end of the header, so that the first of equals is the largest


def preferred_format(accept: str) -> ResultFormat:
    """Return the format that the header prefers; without a header, and among equals, it is JSON.

    Raises NotAcceptable if the header allows none.
    """
    return _remembered(accept) if len(accept) <= LONGEST_REMEMBERED else _preferred_format(accept)


def named_format(name: str) -> ResultFormat | None:
    """Return the format of this short name, in any case; None if it names none.

    Raises InvalidParameters for one that this installation cannot write, with those that it can.
    """
    result_format = next((each for each in ResultFormat if each.short_name == name.lower()), None)
    if result_format is None or result_format in OFFERED:
        return result_format
    reason = "needs the extra [arrow], which this service lacks"
    offered = [each.short_name for each in OFFERED]
    raise InvalidParameters(details=[{"name": FORMAT, "reason": reason, "allowed_values": offered}])


@lru_cache(maxsize=256)
def _remembered(accept: str) -> ResultFormat:
    return _preferred_format(accept)


def _preferred_format(accept: str) -> ResultFormat:
    if not accept.strip():
        return ResultFormat.JSON
    best: dict[ResultFormat, _Range] = {}
    for place, text in enumerate(_RANGES.findall(accept)):
        media_type = text.partition(";")[0].strip().lower()
        parameters = {name.lower(): value.strip(' \t"').lower() for name, value in _PARAMETERS.findall(text)}
        wanted_by = quality(parameters.pop("q", ""))
        for result_format, precision in _named(media_type, parameters):
            found = _Range(wanted_by, precision, -place)
            if result_format not in best or _decides_more(found, best[result_format]):
                best[result_format] = found
    wanted = [result_format for result_format in ResultFormat if result_format in best and best[result_format].quality]
    allowed = [result_format for result_format in wanted if result_format in OFFERED]
    if not allowed:
        raise NotAcceptable([each.value for each in OFFERED], missing=[each.value for each in wanted])
    return max(allowed, key=lambda result_format: best[result_format])


def _decides_more(one: _Range, other: _Range) -> bool:
    return (one.precision, one.quality) > (other.precision, other.quality)


def _named(media_type: str, parameters: dict[str, str]) -> Iterator[tuple[ResultFormat, _Precision]]:
    # Some old clients write * for */*.
    main_type, _, subtype = ("*/*" if media_type == "*" else media_type).partition("/")
    for result_format in ResultFormat:
        if (main_type, subtype) == ("*", "*"):
            yield result_format, _Precision.ANYTHING
        elif result_format.value == f"{main_type}/{subtype}":
            yield result_format, _precision_of(parameters)
        elif subtype == "*" and result_format.value.startswith(f"{main_type}/"):
            yield result_format, _Precision.MAIN_TYPE


def _precision_of(parameters: dict[str, str]) -> _Precision:
    if not parameters:
        return _Precision.TYPE
    return _Precision.TYPE_AND_PARAMETERS if parameters == _SENT_PARAMETERS else _Precision.OTHER_PARAMETERS


def quality(text: str) -> float:
    """Return a quality from 0 to 1; what is none counts as absent."""
    if not _QUALITY.fullmatch(text) or text in ("", "."):
        return 1.0
    return min(float(text), 1.0)
