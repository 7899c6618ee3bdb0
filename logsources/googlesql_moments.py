"""Functions of ours that write numbers and moments as GoogleSQL does, and read moments by a pattern.

They keep the rules of `googlesql_functions`.
"""

from __future__ import annotations

from typing import Final, LiteralString


def immutable(returns: LiteralString, expression: LiteralString) -> LiteralString:
    """Return the rest of the definition of a function that is one expression of its arguments."""
    return f"{returns} LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN {expression}"


MOMENT_DEFINITIONS: Final[dict[tuple[LiteralString, LiteralString], tuple[LiteralString, LiteralString]]] = {
    # --- Numbers and moments as text: 2.0 is 2, infinity is inf, and a second has none, three or six digits
    # Halves away from zero, of the binary number: 2.675 is a little less, so it becomes 2.67. Only to_char() with an
    # exponent writes all digits of it.
    ("rounded", "float8, int8"): (
        "value double precision, places bigint",
        immutable(
            "double precision",
            """CASE WHEN places IS NULL THEN NULL WHEN abs(value) < 1e300 AND abs(value) > 1e-300
                THEN round(to_char(value, '9.9999999999999999999999999EEEE')::numeric,
                    least(greatest(places, -400), 400)::integer)::double precision ELSE value END""",
        ),
    ),
    ("number_text", "float8"): (
        "value double precision",
        immutable(
            "text",
            """CASE value WHEN 'Infinity' THEN 'inf' WHEN '-Infinity' THEN '-inf' WHEN 'NaN' THEN 'nan'
                WHEN 0 THEN '0' ELSE value::text END""",
        ),
    ),
    ("number_text", "numeric"): (
        "value numeric",
        immutable(
            "text",
            """CASE WHEN abs(value) >= 1e19 AND abs(value) < 1e300 OR abs(value) < 1e-4 AND abs(value) > 1e-300
                OR abs(value) < 1e19 AND scale(trim_scale(value)) > 15 THEN value::double precision::text
                ELSE trim_scale(value)::text END""",
        ),
    ),
    # Stable, as PostgreSQL's to_char() is.
    ("time_text", "time"): (
        "value time",
        """text LANGUAGE sql STABLE PARALLEL SAFE
            RETURN CASE WHEN date_trunc('second', value::interval) = value::interval
                THEN to_char(value, 'HH24:MI:SS')
                WHEN date_trunc('milliseconds', value::interval) = value::interval
                THEN to_char(value, 'HH24:MI:SS.MS') ELSE to_char(value, 'HH24:MI:SS.US') END""",
    ),
    ("moment_text", "timestamp, text"): (
        "value timestamp, separator text",
        """text LANGUAGE sql STABLE PARALLEL SAFE
            RETURN to_char(value, 'YYYY-MM-DD') || separator || log_functions.time_text(value::time)""",
    ),
    # --- Moments of the years 1 to 9999; one of another year is an error, or NULL if nothing may fail
    ("out_of_range", "timestamp, bool"): (
        "value timestamp, fails boolean",
        """timestamp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT COST 1 SET search_path = pg_catalog AS $$
        BEGIN
            IF fails THEN RAISE datetime_field_overflow; END IF;
            RETURN NULL;
        END $$""",
    ),
    **{
        ("in_range", f"{type_}, bool"): (
            f"value {type_}, fails boolean",
            immutable(
                type_,
                f"""CASE WHEN value >= '0001-01-01{zone}'::{type_} AND value < '10000-01-01{zone}'::{type_} THEN value
                    ELSE (log_functions.out_of_range(value {local}, fails) {local})::{type_} END""",
            ),
        )
        for type_, zone, local in (("timestamptz", "Z", "AT TIME ZONE 'UTC'"), ("timestamp", "", ""), ("date", "", ""))
    },
    # A local time that comes twice is the first of both moments: the distance from UTC a day before tells which.
    ("zoned_moment", "timestamp, text"): (
        "value timestamp, zone text",
        """timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog AS $$
        DECLARE
            second timestamptz := value AT TIME ZONE zone;
            before timestamptz := CASE WHEN isfinite(value) THEN second - interval '1 day' ELSE 'epoch' END;
            first timestamptz := (value - (before AT TIME ZONE zone - before AT TIME ZONE 'UTC')) AT TIME ZONE 'UTC';
        BEGIN
            RETURN CASE WHEN first < second AND first AT TIME ZONE zone = value THEN first ELSE second END;
        END $$""",
    ),
    # NaN equals nothing, and nothing is less or greater.
    ("compared", "float8, text, float8"): (
        "one double precision, operator text, other double precision",
        immutable(
            "boolean",
            """CASE WHEN one <> 'NaN' AND other <> 'NaN' THEN CASE operator WHEN '=' THEN one = other
                WHEN '<>' THEN one <> other WHEN '<' THEN one < other WHEN '<=' THEN one <= other
                WHEN '>' THEN one > other ELSE one >= other END
                WHEN one IS NOT NULL AND other IS NOT NULL THEN operator = '<>' END""",
        ),
    ),
    # --- Moments read by a pattern; `fields` has a letter for each group of the pattern, as in PARSE_TIMESTAMP:
    # Y y m b d j H I p M S, z a distance from UTC, s seconds of Unix time
    ("parsed_moment", "text, text, text, text"): (
        "value text, pattern text, fields text, zone text",
        """timestamptz LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog AS $$
        DECLARE
            parts text[] := regexp_match(btrim(value, E' \\t\\n\\r'), pattern);
            part text;
            year integer := 1970;
            month integer := 1;
            day integer := 1;
            hours integer := 0;
            minutes integer := 0;
            seconds double precision := 0;
            half text := '';
            distance interval;
            local timestamp;
        BEGIN
            IF parts IS NULL OR length(fields) > 64 THEN
                RETURN NULL;
            END IF;
            FOR number IN 1..length(fields) LOOP
                part := parts[number];
                CASE substr(fields, number, 1)
                    WHEN 'Y' THEN year := part::integer;
                    WHEN 'y' THEN year := part::integer + CASE WHEN part::integer < 69 THEN 2000 ELSE 1900 END;
                    WHEN 'm' THEN month := part::integer;
                    WHEN 'b' THEN
                        month := (strpos('janfebmaraprmayjunjulaugsepoctnovdec', lower(left(part, 3))) + 2) / 3;
                    WHEN 'd' THEN day := part::integer;
                    WHEN 'j' THEN
                        month := 1;
                        day := part::integer;
                    WHEN 'H', 'I' THEN hours := part::integer;
                    WHEN 'p' THEN half := upper(part);
                    WHEN 'M' THEN minutes := part::integer;
                    WHEN 'S' THEN seconds := part::double precision;
                    WHEN 's' THEN RETURN log_functions.in_range(to_timestamp(part::double precision), false);
                    WHEN 'z' THEN distance := CASE WHEN upper(part) = 'Z' THEN '0' ELSE
                        (left(part, 1) || '1')::integer * make_interval(
                            hours => substr(part, 2, 2)::integer, mins => right(part, 2)::integer) END;
                    ELSE RETURN NULL;
                END CASE;
            END LOOP;
            IF hours > 23 OR minutes > 59 OR seconds > 60 OR half <> '' AND hours NOT BETWEEN 1 AND 12 THEN
                RETURN NULL;
            END IF;
            hours := CASE half WHEN 'PM' THEN hours % 12 + 12 WHEN 'AM' THEN hours % 12 ELSE hours END;
            local := make_date(year, month, CASE WHEN strpos(fields, 'j') > 0 THEN 1 ELSE day END)
                + make_interval(hours => hours, mins => minutes, secs => seconds);
            IF strpos(fields, 'j') > 0 THEN
                local := local + make_interval(days => day - 1);
            END IF;
            RETURN log_functions.in_range(CASE WHEN distance IS NULL THEN log_functions.zoned_moment(local, zone)
                ELSE (local - distance) AT TIME ZONE 'UTC' END, false);
        EXCEPTION WHEN data_exception THEN
            RETURN NULL;
        END $$""",
    ),
}
