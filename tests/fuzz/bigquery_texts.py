"""Random texts in BigQuery's dialect: mostly what clients send, sometimes what nobody would."""

from __future__ import annotations

from random import Random

TABLES = (
    "edge_logs", "postgres_logs", "function_edge_logs", "function_logs", "auth_logs", "realtime_logs", "storage_logs",
    "postgrest_logs", "pgbouncer_logs", "supavisor_logs",
)  # fmt: skip
COLUMNS = ("timestamp", "id", "event_message", "metadata")
FIELDS = (
    "level", "status", "status_code", "path", "method", "request", "response", "parsed", "headers", "args", "host",
    "error_severity", "metering", "context", "cf-ray", "timestamp", "none",
)  # fmt: skip
NUMBERS = ("0", "1", "-1", "2.5", "1e3", ".5", "404", "1748852100000000", "99999999999999999999", "100")
STRINGS = (
    "'error'", '"GET"', "'2025-06-02T08:15:00Z'", "'2025-13-45'", "''", "'it\\'s'", "r'\\d+'", "'%rest%'", "'400'",
    "'(?i)get|post'", "'a\\nb'", "'[\\\\w.-]+'", "'{\"a\": [1]}'", "'['", "'$.a.b[0]'", "'UTC'",
)  # fmt: skip
UNITS = ("MICROSECOND", "SECOND", "MINUTE", "hour", "DAY", "week", "MONTH", "QUARTER", "YEAR", "ISOWEEK", "decade")
TYPES = (
    "string", "INT64", "float64", "numeric", "bool", "timestamp", "datetime", "date", "time", "json", "bytes",
    "array<int64>",
)  # fmt: skip
ONE_ARGUMENT = (
    "lower", "upper", "length", "trim", "count", "countif", "sum", "avg", "min", "max", "any_value", "array_agg",
    "string_agg", "logical_or", "abs", "round", "ceil", "floor", "to_json_string", "array_length", "timestamp",
    "datetime", "date", "unix_micros", "unix_seconds", "timestamp_micros", "parse_json", "struct", "safe.parse_json",
    "approx_count_distinct", "reverse", "int64", "string", "exists", "array", "to_hex", "sqrt", "frobnicate",
    "stddev", "json_type", "pg_sleep", "current_user", "md5", "sign", "bool", "rtrim",
)  # fmt: skip
TWO_ARGUMENTS = (
    "regexp_contains", "regexp_extract", "ifnull", "coalesce", "concat", "starts_with", "ends_with", "strpos",
    "safe_divide", "nullif", "split", "json_value", "json_query", "json_extract_scalar", "greatest", "least", "div",
    "mod", "round", "substr", "left", "right", "contains_substr", "string_agg", "pow", "log", "array_to_string",
    "json_query_array", "parse_timestamp", "format_timestamp", "struct", "approx_quantiles", "timestamp_trunc",
)  # fmt: skip
OPERATORS = (
    "=",
    "!=",
    "<>",
    "<",
    ">",
    "<=",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "||",
    "and",
    "or",
    "like",
    "not like",
    "is",
    "&",
)


class TextGenerator:
    """Makes one text after another from a source of chance."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names: list[str] = []
        self.tables: list[str] = []
        self.depth = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def word(self, *words: str) -> str:
        return self.random.choice(words)

    def text(self) -> str:
        """Return a whole text."""
        self.tables = []
        self.depth = 0
        text = self.with_query() if self.chance(0.25) else self.query()
        if self.chance(0.2):
            text += ";"
        return f"--{self.word('chart', 'x y')}\n{text}" if self.chance(0.2) else text

    def with_query(self) -> str:
        parts = []
        for number in range(self.random.randint(1, 3)):
            parts.append(f"c{number} as ({self.query()})")
            self.tables.append(f"c{number}")
        return f"with {', '.join(parts)} {self.query()}"

    def query(self) -> str:
        self.depth += 1
        text = self.select()
        if self.chance(0.15) and self.depth < 3:
            text += f" {self.word('union all', 'union distinct', 'except distinct')} {self.select()}"
        if self.chance(0.4):
            text += f" order by {self.order_item()}"
        if self.chance(0.4):
            text += f" limit {self.random.randint(0, 100)}"
        self.depth -= 1
        return text

    def order_item(self) -> str:
        what = self.word("1", "2", "timestamp", "count", "n", "id", "timestamp", self.value())
        return f"{what} {self.word('', 'asc', 'desc', 'desc nulls first', 'asc nulls last')}"

    def select(self) -> str:
        outer, self.names = self.names, list(self.names)
        source = self.source()
        items = [self.item() for _ in range(self.random.randint(1, 4))]
        if self.chance(0.05):
            items.append(self.word("*", "t.*", "* except (id)"))
        parts = [
            f"select {'distinct ' if self.chance(0.08) else ''}{', '.join(items)}{',' if self.chance(0.1) else ''}"
        ]
        parts.append(source)
        if self.chance(0.6):
            parts.append(f"where {self.condition()}")
        if self.chance(0.3):
            parts.append(f"group by {self.word('1', '1, 2', 'timestamp', 'n', 'all', self.path())}")
            if self.chance(0.2):
                parts.append(f"having {self.word('count(*) > 1', 'n > 1', self.condition())}")
        self.names = outer
        return " ".join(parts)

    def item(self) -> str:
        value = self.value()
        if self.chance(0.6):
            alias = self.word("timestamp", "n", "count", "level", "Path", "`order`", "id", "day")
            return f"{value} {'as ' if self.chance(0.8) else ''}{alias}"
        return value

    def source(self) -> str:
        table = self.word(*TABLES, *self.tables, *self.tables)
        alias = self.word("", "t", "as T", "as el")
        self.names = [*self.names, *([alias.split()[-1]] if alias else [table]), *COLUMNS]
        text = f"from {table} {alias}"
        previous = "metadata"
        for number in range(self.random.randint(0, 4)):
            name = self.word("m", "request", "metadata", "parsed", f"e{number}")
            join = self.word("cross join", "cross join", "cross join", ",", "left join", "join")
            array = self.word(
                previous, previous, f"coalesce({previous}, [])", self.path(), "[1, 2]", "generate_array(1, 3)"
            )
            condition = self.word("", "", " on true", f" on {self.condition()}") if "left" in join else ""
            text += f" {join} unnest({array}) {self.word('as', '')} {name}{condition}"
            self.names += [name, name]
            previous = f"{name}.{self.word(*FIELDS)}"
        if self.chance(0.08):
            text += f" join {self.word(*TABLES)} j on j.timestamp = {self.value()}"
            self.names.append("j")
        if self.chance(0.05) and self.depth < 3:
            text += f" left join ({self.query()}) q on true"
            self.names.append("q")
        return text

    def path(self) -> str:
        name = self.word(*self.names) if self.names else "metadata"
        records = [name for name in self.names if name not in ("timestamp", "id", "event_message")]
        if not self.chance(0.1):
            if name in ("timestamp", "id", "event_message"):
                return name
            name = self.word(*(records[-3:] or ["metadata"]))
        steps = "".join(
            self.word(
                f".{self.word(*FIELDS[:14])}", f".{self.word(*FIELDS[:14])}", "[0]", "[safe_offset(0)]", ".`cf-ray`"
            )
            for _ in range(self.word_count())
        )
        return f"{name}{steps}"

    def word_count(self) -> int:
        return self.random.choice((0, 0, 1, 1, 1, 2, 3))

    def condition(self) -> str:
        kind = self.random.randrange(9)
        if kind == 0:
            return f"{self.value()} in ({', '.join(self.constant() for _ in range(3))})"
        if kind == 1:
            return f"{self.value()} between {self.constant()} and {self.constant()}"
        if kind == 2:
            return f"{self.value()} is {self.word('null', 'not null', 'true', 'not false')}"
        if kind == 3:
            return f"regexp_contains({self.path()}, {self.word(*STRINGS)})"
        if kind == 4 and self.depth < 3:
            return f"{self.path()} in ({self.query()})"
        if kind == 5:
            return f"not ({self.condition()} {self.word('and', 'or')} {self.condition()})"
        return f"{self.path()} {self.word('=', '!=', '<', '>=', 'like')} {self.constant()}"

    def constant(self) -> str:
        return self.word(
            *NUMBERS, *STRINGS, "null", "true", "@project", "current_timestamp()", "timestamp '2025-06-02'"
        )

    def value(self) -> str:
        self.depth += 1
        try:
            if self.depth > 5:
                return self.word(self.path(), self.constant())
            return self.deep_value()
        finally:
            self.depth -= 1

    def deep_value(self) -> str:  # noqa: C901 - a table of what there is
        match self.random.randrange(14):
            case 0 | 1 | 2 | 3:
                return self.path()
            case 4:
                return self.constant()
            case 5:
                return f"{self.word(*ONE_ARGUMENT)}({'distinct ' if self.chance(0.02) else ''}{self.value()})"
            case 6:
                return f"{self.word(*TWO_ARGUMENTS)}({self.path()}, {self.constant()})"
            case 7:
                return f"{self.value()} {self.word(*OPERATORS)} {self.value()}"
            case 8:
                return f"{self.word('cast', 'safe_cast')}({self.value()} as {self.word(*TYPES)})"
            case 9:
                return f"timestamp_trunc({self.word('timestamp', self.value())}, {self.word(*UNITS)})"
            case 10:
                moved = f"interval {self.word(*NUMBERS)} {self.word(*UNITS)}"
                return f"{self.word('timestamp_sub', 'timestamp_add', 'datetime_sub')}({self.value()}, {moved})"
            case 11:
                return f"case when {self.condition()} then {self.value()} else {self.value()} end"
            case 12:
                return self.word(
                    "count(*)", f"approx_quantiles({self.path()}, 100)[offset(95)]", f"if({self.condition()}, 1, 0)",
                    f"array_agg(struct({self.path()}) order by {self.path()} limit 2)",
                    f"row_number() over (partition by {self.path()} order by {self.path()} desc)",
                    f"json_value({self.path()}, '$.a')",
                    f"extract({self.word('hour', 'date', 'dayofweek')} from timestamp)",
                )  # fmt: skip
            case _:
                return f"({self.query()})" if self.chance(0.15) and self.depth < 4 else f"({self.value()})"
