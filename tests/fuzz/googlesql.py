"""Google's own GoogleSQL engine over rows of ours: the oracle of the BigQuery dialect.

The package `zetasql` contains the engine as WebAssembly. Its Python layer copies requests byte by byte and compiles the
module anew in each process, a quarter of a minute; this one calls the engine's functions itself and keeps the compiled
module beside the virtual environment.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tzdata
from google.protobuf import empty_pb2
from wasmtime import Config, Engine, Linker, Module, Store, WasiConfig
from zetasql.wasi import get_wasm_path
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service
from zetasql.wasi._pb2.zetasql.proto import options_pb2, simple_catalog_pb2
from zetasql.wasi._pb2.zetasql.public import simple_table_pb2, type_pb2, value_pb2

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPILED = Path(sys.prefix) / "googlesql"
_SIZE_BYTES = 4


class GoogleSQLError(Exception):
    """What the engine says of a text that it refuses, or that fails while it runs."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns with their types, and its rows as values of Python in the same order."""

    name: str
    columns: tuple[tuple[str, Any], ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a result as values of Python: microseconds for TIMESTAMP, texts for other moments, dicts, lists."""

    names: tuple[str, ...]
    types: tuple[Any, ...]
    rows: tuple[tuple[Any, ...], ...]


# --- Types ------------------------------------------------------------------------------------------------------------


def scalar(name: str) -> Any:
    """Return a type by its name, such as INT64 or STRING."""
    return type_pb2.TypeProto(type_kind=type_pb2.TypeKind.Value(f"TYPE_{name}"))


def array_of(element: Any) -> Any:
    return type_pb2.TypeProto(type_kind=type_pb2.TYPE_ARRAY, array_type=type_pb2.ArrayTypeProto(element_type=element))


def struct_of(fields: Mapping[str, Any]) -> Any:
    made = [type_pb2.StructFieldProto(field_name=name, field_type=type_) for name, type_ in fields.items()]
    return type_pb2.TypeProto(type_kind=type_pb2.TYPE_STRUCT, struct_type=type_pb2.StructTypeProto(field=made))


def value_of(value: Any, type_: Any) -> Any:
    """Return a value of Python as the engine's value of a type; a missing field of a struct is NULL."""
    made = value_pb2.ValueProto()
    if value is None:
        return made
    match type_.type_kind:
        case type_pb2.TYPE_STRING:
            made.string_value = value
        case type_pb2.TYPE_INT64:
            made.int64_value = value
        case type_pb2.TYPE_DOUBLE:
            made.double_value = value
        case type_pb2.TYPE_BOOL:
            made.bool_value = value
        case type_pb2.TYPE_TIMESTAMP:
            made.timestamp_value.FromDatetime(value.replace(tzinfo=None))
        case type_pb2.TYPE_ARRAY:
            made.array_value.SetInParent()
            made.array_value.element.extend(value_of(item, type_.array_type.element_type) for item in value)
        case type_pb2.TYPE_STRUCT:
            made.struct_value.SetInParent()
            fields = type_.struct_type.field
            made.struct_value.field.extend(value_of(value.get(f.field_name), f.field_type) for f in fields)
        case kind:
            raise AssertionError(kind)
    return made


def python_of(value: Any, type_: Any) -> Any:
    """Return the engine's value as one of Python."""
    which = value.WhichOneof("value")
    if which is None:
        return None
    match which:
        case "array_value":
            return [python_of(item, type_.array_type.element_type) for item in value.array_value.element]
        case "struct_value":
            fields = zip(type_.struct_type.field, value.struct_value.field, strict=True)
            return {
                field.field_name or f"f{number}_": python_of(item, field.field_type)
                for number, (field, item) in enumerate(fields)
            }
        case "timestamp_value":
            return value.timestamp_value.seconds * 1_000_000 + value.timestamp_value.nanos // 1_000
        case "date_value":
            return (date(1970, 1, 1) + timedelta(days=value.date_value)).isoformat()
        case "datetime_value":
            return _datetime_text(value.datetime_value)
        case "time_value":
            return _time_text(value.time_value)
        case "numeric_value" | "bignumeric_value":
            scale = 9 if which == "numeric_value" else 38
            return int.from_bytes(getattr(value, which), "little", signed=True) / 10**scale
        case "interval_value":
            return value.interval_value.hex()
        case _:
            return getattr(value, which)


def _time_text(packed: int) -> str:
    # Hour, minute and second in 5, 6 and 6 bits, then 30 bits of nanoseconds.
    nanoseconds, seconds = packed & (2**30 - 1), packed >> 30
    return f"{seconds >> 12:02}:{seconds >> 6 & 63:02}:{seconds & 63:02}{_fraction(nanoseconds)}"


def _datetime_text(value: Any) -> str:
    packed = value.bit_field_datetime_seconds
    parts = (packed >> 26, packed >> 22 & 15, packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63)
    return "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}".format(*parts) + _fraction(value.nanos)


def _fraction(nanoseconds: int) -> str:
    """Return a fraction of a second as GoogleSQL writes it: with no, three or six digits."""
    digits = f"{nanoseconds // 1_000:06}"
    return "" if not nanoseconds else f".{digits.removesuffix('000')}"


# --- The engine -------------------------------------------------------------------------------------------------------


class _Module:
    """The functions of the WebAssembly module; each takes and returns a message as bytes."""

    def __init__(self) -> None:
        config = Config()
        config.shared_memory = True
        engine = Engine(config)
        wasi = WasiConfig()
        wasi.inherit_stderr()
        wasi.preopen_dir(str(Path(tzdata.__file__).parent / "zoneinfo"), "/usr/share/zoneinfo")
        self._store = Store(engine)
        self._store.set_wasi(wasi)
        linker = Linker(engine)
        linker.define_wasi()
        self._exports = linker.instantiate(self._store, _compiled(engine)).exports(self._store)
        if "_initialize" in self._exports:
            self._exports["_initialize"](self._store)
        # A shared memory never moves while it grows.
        self._address = ctypes.addressof(self._exports["memory"].data_ptr().contents)

    def call(self, name: str, request: Any, response: Any) -> Any:
        """Return the function's response. Raises GoogleSQLError."""
        given = request.SerializeToString()
        at, size_at = self._taken(len(given)), self._taken(_SIZE_BYTES)
        self._write(at, given)
        try:
            answer_at = self._exports[f"ZetaSqlLocalService_{name}"](self._store, at, len(given), size_at)
            if not answer_at:
                size = self._exports["wasm_get_last_error_size"](self._store)
                message = self._read(self._exports["wasm_get_last_error"](self._store), size)
                raise GoogleSQLError(message.decode())
            response.ParseFromString(self._read(answer_at, int.from_bytes(self._read(size_at, _SIZE_BYTES), "little")))
            self._free(answer_at)
        finally:
            self._free(at)
            self._free(size_at)
        return response

    def _taken(self, size: int) -> int:
        at: int = self._exports["wasm_malloc"](self._store, size)
        return at

    def _free(self, at: int) -> None:
        self._exports["wasm_free"](self._store, at)

    def _read(self, at: int, size: int) -> bytes:
        return ctypes.string_at(self._address + at, size)

    def _write(self, at: int, given: bytes) -> None:
        ctypes.memmove(self._address + at, given, len(given))


def _compiled(engine: Engine) -> Module:
    source = Path(get_wasm_path())
    versions = f"{version('wasmtime')} {version('zetasql')}"
    name = sha256(versions.encode()).hexdigest()
    kept = COMPILED / f"{name[:16]}.compiled"
    if kept.exists():
        return Module.deserialize_file(engine, str(kept))
    module = Module.from_file(engine, str(source))
    COMPILED.mkdir(exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(module.serialize())
    unfinished.replace(kept)
    return module


class GoogleSQL:
    """The engine over a few tables."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._module = _Module()
        language = self._module.call(
            "GetLanguageOptions",
            service.LanguageOptionsRequest(maximum_features=True),
            options_pb2.LanguageOptionsProto(),
        )
        self._options = options_pb2.AnalyzerOptionsProto(language_options=language, default_timezone="UTC")
        catalog = simple_catalog_pb2.SimpleCatalogProto(name="logs")
        catalog.builtin_function_options.language_options.CopyFrom(language)
        content = {}
        for table in tables:
            columns = [simple_table_pb2.SimpleColumnProto(name=name, type=type_) for name, type_ in table.columns]
            catalog.table.append(simple_table_pb2.SimpleTableProto(name=table.name, column=columns))
            types = [type_ for _, type_ in table.columns]
            rows = [
                service.TableData.Row(cell=[value_of(value, type_) for value, type_ in zip(row, types, strict=True)])
                for row in table.rows
            ]
            content[table.name] = service.TableContent(table_data=service.TableData(row=rows))
        registered = self._module.call(
            "RegisterCatalog",
            service.RegisterCatalogRequest(simple_catalog=catalog, table_content=content),
            service.RegisterResponse(),
        )
        self._catalog = registered.registered_id

    def answer(self, sql: str) -> Answer:
        """Return the rows of a text. Raises GoogleSQLError."""
        request = service.PrepareQueryRequest(sql=sql, options=self._options, registered_catalog_id=self._catalog)
        prepared = self._module.call("PrepareQuery", request, service.PrepareQueryResponse()).prepared
        try:
            evaluated = self._module.call(
                "EvaluateQuery",
                service.EvaluateQueryRequest(prepared_query_id=prepared.prepared_query_id),
                service.EvaluateQueryResponse(),
            )
        finally:
            self._module.call(
                "UnprepareQuery",
                service.UnprepareQueryRequest(prepared_query_id=prepared.prepared_query_id),
                empty_pb2.Empty(),
            )
        types = tuple(column.type for column in prepared.columns)
        rows = tuple(
            tuple(python_of(cell, type_) for cell, type_ in zip(row.cell, types, strict=True))
            for row in evaluated.content.table_data.row
        )
        return Answer(tuple(column.name for column in prepared.columns), types, rows)
