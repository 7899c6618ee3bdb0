r"""Functions of ours that give GoogleSQL's results where one expression of PostgreSQL's own functions cannot.

The BigQuery dialect calls them, over any row: none fails on a value, and each result has a bound. What does not fit,
or would become too large, is NULL. A jsonb here is an array or a record, as everywhere in the dialect.

`log_functions` creates them and says what its functions may use; nothing here needs the guards, which are created
later. What makes large values is also in `guards.BOUNDED_RESULTS`.
"""

from __future__ import annotations

from typing import Final, LiteralString

from logsources.googlesql_moments import MOMENT_DEFINITIONS, immutable

# A separator or a number of elements comes from the text of a query and could multiply the size of a row's value.
_LARGEST_GROWTH: Final[LiteralString] = "1048576"  # bytes
_LARGEST_PRODUCT: Final[LiteralString] = "50000000"  # bytes of a text times bytes of what is searched in it
_MOST_ELEMENTS: Final[LiteralString] = "16384"  # of a generated array
_LONGEST_CAPITALS: Final[LiteralString] = "65536"  # bytes; each character becomes a row


def _elements(value: LiteralString, result: LiteralString) -> LiteralString:
    """Return what becomes of the elements `e`, numbered by `n`, if the value is an array."""
    return (
        f"CASE WHEN jsonb_typeof({value}) = 'array' THEN"  # noqa: S608  (all parts are written here)
        f" (SELECT {result} FROM jsonb_array_elements({value}) WITH ORDINALITY AS t(e, n)) END"
    )


# (name, types of the arguments) → arguments with names, and the rest of the definition.
GOOGLESQL_DEFINITIONS: Final[dict[tuple[LiteralString, LiteralString], tuple[LiteralString, LiteralString]]] = {
    # --- JSON: text without blanks between the tokens; numbers and the order of keys as jsonb has them
    # Of the parts between quotes, each second one is outside of strings. If a string contains a quote, it takes the
    # pattern, which is half as fast.
    ("json_text", "jsonb"): (
        "value jsonb",
        immutable(
            "text",
            r"""CASE WHEN jsonb_typeof(value) NOT IN ('object', 'array') THEN NULLIF(value::text, 'null')
                WHEN strpos(value::text, '\"') = 0 THEN
                (SELECT string_agg(CASE WHEN n & 1 = 1 THEN replace(part, ' ', '') ELSE part END, '"' ORDER BY n)
                FROM unnest(string_to_array(value::text, '"')) WITH ORDINALITY AS t(part, n))
                ELSE regexp_replace(value::text, '((?:[^" ]|"(?:[^"\\]|\\.)*")*) ', '\1', 'g') END""",
        ),
    ),
    ("json_texts", "jsonb"): (
        "value jsonb",
        immutable(
            "jsonb",
            _elements(
                "value", "coalesce(jsonb_agg(coalesce(log_functions.json_text(e), 'null') ORDER BY n), '[]'::jsonb)"
            ),
        ),
    ),
    # NULL if an element is an array or an object.
    ("scalar_texts", "jsonb"): (
        "value jsonb",
        immutable(
            "jsonb",
            _elements(
                "value",
                "CASE WHEN count(*) FILTER (WHERE jsonb_typeof(e) IN ('object', 'array')) = 0"
                " THEN coalesce(jsonb_agg(e #>> '{}' ORDER BY n), '[]'::jsonb) END",
            ),
        ),
    ),
    # --- Arrays
    ("array_text", "jsonb, text"): (
        "value jsonb, separator text",
        immutable(
            "text",
            "CASE WHEN octet_length(separator)::bigint * CASE jsonb_typeof(value) WHEN 'array'"
            f" THEN jsonb_array_length(value) END <= {_LARGEST_GROWTH} THEN "
            + _elements("value", "coalesce(string_agg(e #>> '{}', separator ORDER BY n), '')")
            + " END",
        ),
    ),
    ("array_text", "jsonb, text, text"): (
        "value jsonb, separator text, instead_of_null text",
        immutable(
            "text",
            "CASE WHEN (octet_length(separator) + octet_length(instead_of_null))::bigint * CASE jsonb_typeof(value)"
            f" WHEN 'array' THEN jsonb_array_length(value) END <= {_LARGEST_GROWTH} THEN "
            + _elements(
                "value", "coalesce(string_agg(coalesce(e #>> '{}', instead_of_null), separator ORDER BY n), '')"
            )
            + " END",
        ),
    ),
    ("reversed_elements", "jsonb"): (
        "value jsonb",
        immutable("jsonb", _elements("value", "coalesce(jsonb_agg(e ORDER BY n DESC), '[]'::jsonb)")),
    ),
    ("number_series", "numeric, numeric, numeric"): (
        "first numeric, last numeric, step numeric",
        immutable(
            "jsonb",
            f"""CASE WHEN step <> 0 AND abs(first) < 1e300 AND abs(last) < 1e300 AND scale(step) <= 300
                AND (last - first) / step < {_MOST_ELEMENTS} THEN
                (SELECT coalesce(jsonb_agg(n), '[]'::jsonb) FROM generate_series(first, last, step) AS n) END""",  # noqa: S608
        ),
    ),
    ("date_series", "date, date, interval"): (
        "first date, last date, step interval",
        immutable(
            "jsonb",
            f"""CASE WHEN NOT (isfinite(first) AND isfinite(last)) THEN NULL WHEN extract(epoch FROM step) <> 0 AND
                (last - first) * 86400.0 / extract(epoch FROM step) < {_MOST_ELEMENTS} THEN
                (SELECT coalesce(jsonb_agg(d::date), '[]'::jsonb)
                FROM generate_series(first::timestamp, last::timestamp, step) AS d) END""",  # noqa: S608
        ),
    ),
    # --- Text
    # A separator of no character splits into characters; the parts of '' are [''].
    ("split_text", "text, text"): (
        "value text, separator text",
        immutable(
            "jsonb",
            f"""CASE WHEN value = '' AND separator IS NOT NULL THEN '[""]'::jsonb
                WHEN separator = '' THEN to_jsonb(string_to_array(value, NULL))
                WHEN octet_length(value)::bigint * octet_length(separator) <= {_LARGEST_PRODUCT}
                THEN to_jsonb(string_to_array(value, separator)) END""",
        ),
    ),
    # SUBSTR: a position below zero counts from the end; one before the beginning is the beginning.
    ("text_part", "text, int8"): (
        "value text, place bigint",
        immutable(
            "text",
            """CASE WHEN place IS NULL THEN NULL WHEN place > 2147483647 THEN substr(value, 2147483647)
                WHEN place >= 0 THEN substr(value, greatest(place, 1)::integer)
                ELSE right(value, (-greatest(place, -2147483647))::integer) END""",
        ),
    ),
    ("text_part", "text, int8, int8"): (
        "value text, place bigint, size bigint",
        immutable(
            "text",
            """CASE WHEN size >= 0 THEN
                left(log_functions.text_part(value, place), least(size, 2147483647)::integer) END""",
        ),
    ),
    # INSTR: where the text is found for the given time, from a position on, or from the end back to one below zero.
    ("text_position", "text, text, int8, int8"): (
        "value text, wanted text, place bigint, occurrence bigint",
        f"""bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog AS $$
        DECLARE
            found integer;
            at bigint;
            source text := value;
            pattern text := wanted;
        BEGIN
            IF place = 0 OR abs(place::numeric) > 2147483647 OR occurrence < 1 OR occurrence > 1000
                    OR octet_length(value)::bigint * octet_length(wanted) * occurrence > {_LARGEST_PRODUCT} THEN
                RETURN NULL;
            END IF;
            at := abs(place);
            IF at > length(value) + 1 THEN
                RETURN 0;
            END IF;
            IF place < 0 THEN
                -- Backwards: the mirror image, from where the last possible match begins.
                source := reverse(value);
                pattern := reverse(wanted);
                at := greatest(at - greatest(length(wanted), 1) + 1, 1);
            END IF;
            FOR round IN 1..occurrence LOOP
                found := strpos(substr(source, at::integer), pattern);
                IF found = 0 OR at > length(source) + 1 THEN
                    RETURN 0;
                END IF;
                at := at + found;
            END LOOP;
            RETURN CASE WHEN place < 0 THEN length(value) - (at - 1) - length(wanted) + 2 ELSE at - 1 END;
        END $$""",
    ),
    # The first letter and those behind a delimiter become capitals, all others small.
    ("initial_capitals", "text, text"): (
        "value text, delimiters text",
        immutable(
            "text",
            f"""CASE WHEN octet_length(value) <= {_LONGEST_CAPITALS} AND octet_length(delimiters) <= 256 THEN
                (SELECT coalesce(string_agg(CASE WHEN strpos(delimiters, letter) > 0 THEN letter
                WHEN strpos(delimiters, before) > 0 THEN upper(letter)
                ELSE lower(letter) END, '' ORDER BY n), '') FROM
                (SELECT letter, n, lag(letter, 1, '') OVER (ORDER BY n) AS before
                FROM unnest(string_to_array(value, NULL)) WITH ORDINALITY AS t(letter, n)) AS letters) END""",  # noqa: S608
        ),
    ),
    # NET.HOST: what is between // and the path or the port, without a user.
    ("host_of", "text"): (
        "value text",
        immutable(
            "text",
            r"""NULLIF((regexp_match(btrim(value, E' \t\n\f\r'),
                '^(?:[A-Za-z][A-Za-z0-9+.-]*://|//)?(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^:/?#]*)'))[1], '')""",
        ),
    ),
    # Every match of a pattern: of its first group, if it has one.
    ("pattern_matches", "text, text"): (
        "value text, pattern text",
        immutable(
            "jsonb",
            """CASE WHEN value IS NOT NULL AND pattern IS NOT NULL THEN
                (SELECT coalesce(jsonb_agg(found[1] ORDER BY n), '[]'::jsonb)
                FROM regexp_matches(value, pattern, 'g') WITH ORDINALITY AS t(found, n)) END""",
        ),
    ),
    **MOMENT_DEFINITIONS,
}
