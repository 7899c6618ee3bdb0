"""PostgreSQL values to columns with types: Parquet files and Arrow IPC streams.

A column's type follows PostgreSQL's; the values are those that `endpoints.results.encoding` loads for JSON, redacted
alike.

=========================  =========================================================================
PostgreSQL type            Arrow type
=========================  =========================================================================
boolean                    bool
smallint, integer, bigint  int16, int32, int64
oid                        uint32
real, double               float, double
numeric(p, s)              decimal128(p, s)
numeric                    decimal128(38, s): s is the most digits after the point of all values
timestamptz                timestamp[us, UTC]
timestamp                  timestamp[us]
date, time                 date32, time64[us]
bytea                      binary
arrays                     list of the element's type, nested for more dimensions
everything else            string, as in JSON: json and jsonb as JSON text, interval as ISO 8601
a field of a record        int64, double or bool if all its values are such, otherwise string
=========================  =========================================================================

If one value of a column does not fit the type, the whole column is strings, as in CSV: an infinite date, a year BC or
beyond 9999, the time 24:00, NaN or infinity or more than 38 digits in a numeric, arrays of different dimensions.
Decimals of more digits exist (decimal256), but readers turn them into doubles without a word, or fail. A number of a
record's field fits a double if it is the double, or its shortest digits.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg import adapters

from endpoints.results.encoding import Chunk, field_text, text_field
from endpoints.results.outcomes import FIELD, ColumnType, OverBudget, Rows
from endpoints.results.redaction import redact_text

MOST_DIGITS: Final = 38  # of decimal128
NO_TYPE: Final[ColumnType] = (0, -1)  # no type of PostgreSQL has this oid

_MIDNIGHT: Final = pa.scalar("1970-01-01T")
_ARRAY_ERRORS: Final = (ValueError, KeyError, OverflowError, pa.ArrowTypeError)  # ArrowInvalid is a ValueError


# --- Types ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Form:
    """How a column is made: its values as `collected`, then converted to `target`, inside as many lists as `depth`.

    The target None is a decimal whose scale the values decide. A record's field is read by `field`, and values that do
    not fit try the form `otherwise`.
    """

    collected: pa.DataType
    target: pa.DataType | None
    depth: int = 0
    field: Callable[[bytes], Any] | None = None
    otherwise: _Form | None = None

    @property
    def is_text(self) -> bool:
        return self.depth == 0 and self.target == pa.string() and self.field is None


_TEXT: Final = _Form(pa.string(), pa.string())
_SAME: Final = [
    ("bool", pa.bool_()),
    ("int2", pa.int16()),
    ("int4", pa.int32()),
    ("int8", pa.int64()),
    ("oid", pa.uint32()),
    ("bytea", pa.binary()),
]
_FROM_TEXT: Final = [
    ("float4", pa.float32()),
    ("float8", pa.float64()),
    ("timestamptz", pa.timestamp("us", "UTC")),
    ("timestamp", pa.timestamp("us")),
    ("date", pa.date32()),
    ("time", pa.time64("us")),
    ("numeric", None),
]
_FORMS: Final[Mapping[int, _Form]] = {
    **{adapters.types[name].oid: _Form(type_, type_) for name, type_ in _SAME},
    **{adapters.types[name].oid: _Form(pa.string(), type_) for name, type_ in _FROM_TEXT},
}


def _exact_double(value: bytes) -> float:
    double = float(value)
    if Decimal(value.decode()) not in (Decimal(double), Decimal(repr(double))):
        raise ValueError("more digits than a double has")
    return double


_FIELD_TEXT: Final = _Form(pa.string(), pa.string(), field=field_text)
_BOOLEANS: Final = {b"true": True, b"false": False}
_FIELD_BOOLEAN: Final = _Form(pa.bool_(), pa.bool_(), field=_BOOLEANS.__getitem__, otherwise=_FIELD_TEXT)
_FIELD_NUMBER: Final = _Form(pa.float64(), pa.float64(), field=_exact_double, otherwise=_FIELD_BOOLEAN)
_FIELD_INTEGER: Final = _Form(pa.int64(), pa.int64(), field=int, otherwise=_FIELD_NUMBER)


def _form_of(oid: int, modifier: int) -> _Form:
    if (oid, modifier) == FIELD:
        return _FIELD_INTEGER
    known = adapters.types.get(oid)
    if known is None:
        return _TEXT  # an array of an unknown type is loaded as text, too
    form = _FORMS.get(known.oid, _TEXT)
    target = _declared_decimal(modifier) if form.target is None and modifier >= 0 else form.target
    # PostgreSQL does not tell an array's dimensions before its values.
    return _Form(form.collected, target, depth=int(oid == known.array_oid))


def _declared_decimal(modifier: int) -> pa.DataType | None:
    """Return the type for numeric(precision, scale), in PostgreSQL's encoding: numerictypmodin() in numeric.c."""
    precision = (modifier - 4) >> 16
    scale = (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    # numeric(3, -2) holds up to 99900, numeric(2, 4) up to 0.0099.
    precision, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    return pa.decimal128(precision, scale) if precision <= MOST_DIGITS else None


# --- Columns ----------------------------------------------------------------------------------------------------------
class _Unfit(Exception):
    """A column has a value that its type cannot hold; `depth` is that of its lists if these alone are the reason."""

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self.depth = depth


def encode_columns(
    rows: Rows,
    chunks: Callable[[], Iterator[Chunk]],
    *,
    as_parquet: bool,
    redact: bool,
    max_bytes: int,
) -> bytes:
    """Return the rows as a Parquet file or an Arrow IPC stream; if two columns share a name, the last one is returned.

    `chunks` returns the rows' values from the beginning; it is called again for columns that have a value that does
    not fit. With `redact` the values are redacted already, except for those of bytea, which arrive encoded.

    Raises OverBudget if the columns have more than `max_bytes` before compression, while they arrive, or the body has:
    a megabyte of the same letter makes a small file, but costs a megabyte here and at its reader.
    """
    # As in JSON: the place of the first column of this name, and the values of the last.
    indexes = {name: index for index, name in enumerate(rows.columns)}
    types = dict(enumerate(rows.types))
    forms = {index: _form_of(*types.get(index, NO_TYPE)) for index in indexes.values()}
    columns: dict[int, pa.ChunkedArray] = {}
    room = max_bytes
    while forms:
        made, forms = _columns(forms, chunks(), redact=redact, room=room)
        columns |= made
        room -= sum(column.nbytes for column in made.values())
    table = pa.table([columns[index] for index in indexes.values()], names=list(indexes))
    body = _write(table, as_parquet=as_parquet)
    if len(body) > max_bytes:
        raise OverBudget
    return body


def _write(table: pa.Table, *, as_parquet: bool) -> bytes:
    sink = pa.BufferOutputStream()
    if as_parquet:
        pq.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.combine_chunks())
    return cast(bytes, sink.getvalue().to_pybytes())


def _columns(
    forms: Mapping[int, _Form], chunks: Iterator[Chunk], *, redact: bool, room: int
) -> tuple[dict[int, pa.ChunkedArray], dict[int, _Form]]:
    """Return the columns by index, and the other form for each of those that their values do not fit."""
    forms = dict(forms)
    arrays: dict[int, list[pa.Array]] = {index: [] for index in forms}
    other: dict[int, _Form] = {}
    for chunk in chunks:
        for index in [index for index in forms if index not in other]:
            array, form = _fitting([row[index] for row in chunk], forms[index], redact=redact)
            if form != forms[index] and arrays[index]:
                other[index] = form
                room += sum(dropped.nbytes for dropped in arrays.pop(index))
                continue
            forms[index] = form
            room -= array.nbytes
            if room < 0:
                raise OverBudget
            arrays[index].append(array)
    columns: dict[int, pa.ChunkedArray] = {}
    for index, collected in arrays.items():
        try:
            columns[index] = _joined(collected, forms[index])
        except _Unfit:
            other[index] = _TEXT
    return columns, other


def _fitting(values: Sequence[Any], form: _Form, *, redact: bool) -> tuple[pa.Array, _Form]:
    """Return one chunk's values of a column in this form, or in the first one after it that they fit."""
    while True:
        try:
            return _array(values, form, redact=redact), form
        except _Unfit as unfit:
            form = form.otherwise or _other_form(form, unfit)


def _other_form(form: _Form, unfit: _Unfit) -> _Form:
    """Return lists of more dimensions, tried once from the first row on, or text, which any value fits."""
    return replace(form, depth=unfit.depth) if form.depth == 1 and unfit.depth else _TEXT


def _joined(arrays: Sequence[pa.Array], form: _Form) -> pa.ChunkedArray:
    target = form.target
    if form.field is not None and all(array.null_count == len(array) for array in arrays):
        target = pa.string()  # NULL alone says nothing of the type
        arrays = [array.cast(target) for array in arrays]
    if target is None:
        # A chunk has the scale that its own values need.
        scales = [_leaf_type(array.type) for array in arrays]
        scale = max((type_.scale for type_ in scales), default=0)
        target = pa.decimal128(MOST_DIGITS, scale)
        try:
            arrays = [_over_leaves(lambda leaf: leaf.cast(target), array) for array in arrays]
        except pa.ArrowInvalid as error:
            raise _Unfit from error
    return pa.chunked_array(arrays, type=_nested(target, form.depth))


def _nested(type_: pa.DataType, depth: int) -> pa.DataType:
    for _ in range(depth):
        type_ = pa.list_(type_)
    return type_


def _leaf_type(type_: pa.DataType) -> pa.DataType:
    while pa.types.is_list(type_):
        type_ = type_.value_type
    return type_


def _over_leaves(convert: Callable[[pa.Array], pa.Array], array: pa.Array) -> pa.Array:
    """Return the array with its elements converted, at the depth at which they are no lists."""
    if not pa.types.is_list(array.type):
        return convert(array)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(array.offsets, _over_leaves(convert, array.values), mask=mask)


# --- Values -----------------------------------------------------------------------------------------------------------
def _array(values: Sequence[Any], form: _Form, *, redact: bool) -> pa.Array:
    """Return one chunk's values of a column. Raises _Unfit."""
    if form.is_text:
        return pa.array([None if value is None else text_field(value) for value in values], pa.string())
    if form.depth:
        _check_depth(values, form.depth)
    if form.target == pa.binary():
        values = [_bytes(value, redact=redact) for value in values]
    try:
        if form.field is not None:
            values = [None if value is None or value == b"null" else form.field(value) for value in values]
        array = pa.array(values, _nested(form.collected, form.depth))
        return array if form.collected == form.target else _over_leaves(lambda leaf: _typed(leaf, form.target), array)
    except _ARRAY_ERRORS as error:
        raise _Unfit from error


def _check_depth(values: Sequence[Any], depth: int) -> None:
    depths = {_depth(value) for value in values if value is not None and value != []}
    if depths - {depth}:
        raise _Unfit(depth=depths.pop() if len(depths) == 1 else 0)


def _depth(value: Any) -> int:
    # PostgreSQL's arrays have no empty dimension inside others, and each row of a dimension has the same ones.
    depth = 0
    while isinstance(value, list):
        value = value[0]
        depth += 1
    return depth


def _bytes(value: Any, *, redact: bool) -> Any:
    """Return the bytes of base64, in lists too; readable ones are redacted like texts, which base64 hid."""
    match value:
        case None:
            return None
        case list():
            return [_bytes(element, redact=redact) for element in value]
    plain = b64decode(value)
    if not redact:
        return plain
    return redact_text(plain.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _typed(texts: pa.Array, target: pa.DataType | None) -> pa.Array:
    """Return texts as values of a type. Raises ArrowInvalid for one that the type does not have."""
    if target is None:
        return texts.cast(_needed_decimal(texts))
    if pa.types.is_time(target):
        # Arrow reads no times; 24:00 is no time of a timestamp either.
        return pc.binary_join_element_wise(_MIDNIGHT, texts, "").cast(pa.timestamp("us")).cast(target)
    return texts.cast(target)


def _needed_decimal(texts: pa.Array) -> pa.DataType:
    """Return the decimal with the digits of all these texts. Raises ArrowInvalid if it would have too many."""
    digits = pc.utf8_ltrim(texts, "-0")
    length = pc.binary_length(digits)
    point = pc.find_substring(digits, ".")
    has_point = pc.greater_equal(point, 0)
    scale = pc.max(pc.if_else(has_point, pc.subtract(pc.subtract(length, point), 1), 0)).as_py() or 0
    whole = pc.max(pc.if_else(has_point, point, length)).as_py() or 0
    if whole + scale > MOST_DIGITS:
        raise pa.ArrowInvalid("more than 38 digits")
    return pa.decimal128(MOST_DIGITS, scale)
