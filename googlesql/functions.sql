-- Functions that give GoogleSQL's results where one expression of PostgreSQL's own functions cannot.
--
-- Translated texts call them, over any row: none fails on a value, and each result has a bound. What does not fit, or
-- would become too large, is NULL. A jsonb here is an array or a record, as everywhere in the dialect.
--
-- Names in a body that is an expression keep the meaning that they have when it is created, so it needs no SET clause,
-- which would keep PostgreSQL from inlining it. Types of arguments are written as pg_type names them: a host reads the
-- names and types of what it allows from here.

-- JSON: text without blanks between the tokens; numbers and the order of keys as jsonb has them. Of the parts between
-- quotes, each second one is outside of strings. If a string contains a quote, it takes the pattern, which is half as
-- fast.
CREATE OR REPLACE FUNCTION log_functions.json_text(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) NOT IN ('object', 'array') THEN NULLIF(value::text, 'null')
    WHEN strpos(value::text, '\"') = 0 THEN
        (SELECT string_agg(CASE WHEN n & 1 = 1 THEN replace(part, ' ', '') ELSE part END, '"' ORDER BY n)
        FROM unnest(string_to_array(value::text, '"')) WITH ORDINALITY AS t(part, n))
    ELSE regexp_replace(value::text, '((?:[^" ]|"(?:[^"\\]|\\.)*")*) ', '\1', 'g') END;

CREATE OR REPLACE FUNCTION log_functions.json_texts(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) = 'array' THEN
    (SELECT coalesce(jsonb_agg(coalesce(log_functions.json_text(e), 'null') ORDER BY n), '[]'::jsonb)
    FROM jsonb_array_elements(value) WITH ORDINALITY AS t(e, n)) END;

-- NULL if an element is an array or an object.
CREATE OR REPLACE FUNCTION log_functions.scalar_texts(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) = 'array' THEN
    (SELECT CASE WHEN count(*) FILTER (WHERE jsonb_typeof(e) IN ('object', 'array')) = 0
        THEN coalesce(jsonb_agg(e #>> '{}' ORDER BY n), '[]'::jsonb) END
    FROM jsonb_array_elements(value) WITH ORDINALITY AS t(e, n)) END;

-- Arrays. A separator or a number of elements comes from the text of a query and could multiply the size of a row's
-- value: by at most 1 MiB, 16,384 elements.
CREATE OR REPLACE FUNCTION log_functions.array_text(value jsonb, separator text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(separator)::bigint
        * CASE jsonb_typeof(value) WHEN 'array' THEN jsonb_array_length(value) END <= 1048576 THEN
    CASE WHEN jsonb_typeof(value) = 'array' THEN
        (SELECT coalesce(string_agg(e #>> '{}', separator ORDER BY n), '')
        FROM jsonb_array_elements(value) WITH ORDINALITY AS t(e, n)) END END;

CREATE OR REPLACE FUNCTION log_functions.array_text(value jsonb, separator text, instead_of_null text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (octet_length(separator) + octet_length(instead_of_null))::bigint
        * CASE jsonb_typeof(value) WHEN 'array' THEN jsonb_array_length(value) END <= 1048576 THEN
    CASE WHEN jsonb_typeof(value) = 'array' THEN
        (SELECT coalesce(string_agg(coalesce(e #>> '{}', instead_of_null), separator ORDER BY n), '')
        FROM jsonb_array_elements(value) WITH ORDINALITY AS t(e, n)) END END;

CREATE OR REPLACE FUNCTION log_functions.reversed_elements(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) = 'array' THEN
    (SELECT coalesce(jsonb_agg(e ORDER BY n DESC), '[]'::jsonb)
    FROM jsonb_array_elements(value) WITH ORDINALITY AS t(e, n)) END;

CREATE OR REPLACE FUNCTION log_functions.number_series(first numeric, last numeric, step numeric) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN step <> 0 AND abs(first) < 1e300 AND abs(last) < 1e300 AND scale(step) <= 300
        AND (last - first) / step < 16384 THEN
    (SELECT coalesce(jsonb_agg(n), '[]'::jsonb) FROM generate_series(first, last, step) AS n) END;

CREATE OR REPLACE FUNCTION log_functions.date_series(first date, last date, step interval) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN NOT (isfinite(first) AND isfinite(last)) THEN NULL
    WHEN extract(epoch FROM step) <> 0 AND (last - first) * 86400.0 / extract(epoch FROM step) < 16384 THEN
        (SELECT coalesce(jsonb_agg(d::date), '[]'::jsonb)
        FROM generate_series(first::timestamp, last::timestamp, step) AS d) END;

-- Text. A separator of no character splits into characters; the parts of '' are ['']. The bound is bytes of a text
-- times bytes of what is searched in it.
CREATE OR REPLACE FUNCTION log_functions.split_text(value text, separator text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN value = '' AND separator IS NOT NULL THEN '[""]'::jsonb
    WHEN separator = '' THEN to_jsonb(string_to_array(value, NULL))
    WHEN octet_length(value)::bigint * octet_length(separator) <= 50000000
    THEN to_jsonb(string_to_array(value, separator)) END;

-- SUBSTR: a position below zero counts from the end; one before the beginning is the beginning.
CREATE OR REPLACE FUNCTION log_functions.text_part(value text, place int8) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN place IS NULL THEN NULL WHEN place > 2147483647 THEN substr(value, 2147483647)
    WHEN place >= 0 THEN substr(value, greatest(place, 1)::integer)
    ELSE right(value, (-greatest(place, -2147483647))::integer) END;

CREATE OR REPLACE FUNCTION log_functions.text_part(value text, place int8, size int8) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN size >= 0 THEN left(log_functions.text_part(value, place), least(size, 2147483647)::integer) END;

-- INSTR: where the text is found for the given time, from a position on, or from the end back to one below zero.
CREATE OR REPLACE FUNCTION log_functions.text_position(value text, wanted text, place int8, occurrence int8) RETURNS int8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog AS $$
DECLARE
    found integer;
    at bigint;
    source text := value;
    pattern text := wanted;
BEGIN
    IF place = 0 OR abs(place::numeric) > 2147483647 OR occurrence < 1 OR occurrence > 1000
            OR octet_length(value)::bigint * octet_length(wanted) * occurrence > 50000000 THEN
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
END $$;

-- The first letter and those behind a delimiter become capitals, all others small. Each character becomes a row.
CREATE OR REPLACE FUNCTION log_functions.initial_capitals(value text, delimiters text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(value) <= 65536 AND octet_length(delimiters) <= 256 THEN
    (SELECT coalesce(string_agg(CASE WHEN strpos(delimiters, letter) > 0 THEN letter
        WHEN strpos(delimiters, before) > 0 THEN upper(letter)
        ELSE lower(letter) END, '' ORDER BY n), '')
    FROM (SELECT letter, n, lag(letter, 1, '') OVER (ORDER BY n) AS before
        FROM unnest(string_to_array(value, NULL)) WITH ORDINALITY AS t(letter, n)) AS letters) END;

-- NET.HOST: what is between // and the path or the port, without a user.
CREATE OR REPLACE FUNCTION log_functions.host_of(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN NULLIF((regexp_match(btrim(value, E' \t\n\f\r'),
    '^(?:[A-Za-z][A-Za-z0-9+.-]*://|//)?(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^:/?#]*)'))[1], '');

-- Every match of a pattern: of its first group, if it has one.
CREATE OR REPLACE FUNCTION log_functions.pattern_matches(value text, pattern text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN value IS NOT NULL AND pattern IS NOT NULL THEN
    (SELECT coalesce(jsonb_agg(found[1] ORDER BY n), '[]'::jsonb)
    FROM regexp_matches(value, pattern, 'g') WITH ORDINALITY AS t(found, n)) END;

-- Numbers and moments as text: 2.0 is 2, infinity is inf, and a second has none, three or six digits.
-- Halves away from zero, of the binary number: 2.675 is a little less, so it becomes 2.67. Only to_char() with an
-- exponent writes all digits of it.
CREATE OR REPLACE FUNCTION log_functions.rounded(value float8, places int8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN places IS NULL THEN NULL
    WHEN abs(value) < 1e300 AND abs(value) > 1e-300
    THEN round(to_char(value, '9.9999999999999999999999999EEEE')::numeric,
        least(greatest(places, -400), 400)::integer)::double precision
    ELSE value END;

CREATE OR REPLACE FUNCTION log_functions.number_text(value float8) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE value WHEN 'Infinity' THEN 'inf' WHEN '-Infinity' THEN '-inf' WHEN 'NaN' THEN 'nan' WHEN 0 THEN '0'
    ELSE value::text END;

CREATE OR REPLACE FUNCTION log_functions.number_text(value numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN abs(value) >= 1e19 AND abs(value) < 1e300 OR abs(value) < 1e-4 AND abs(value) > 1e-300
        OR abs(value) < 1e19 AND scale(trim_scale(value)) > 15 THEN value::double precision::text
    ELSE trim_scale(value)::text END;

-- Stable, as PostgreSQL's to_char() is.
CREATE OR REPLACE FUNCTION log_functions.time_text(value time) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN date_trunc('second', value::interval) = value::interval THEN to_char(value, 'HH24:MI:SS')
    WHEN date_trunc('milliseconds', value::interval) = value::interval THEN to_char(value, 'HH24:MI:SS.MS')
    ELSE to_char(value, 'HH24:MI:SS.US') END;

CREATE OR REPLACE FUNCTION log_functions.moment_text(value timestamp, separator text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN to_char(value, 'YYYY-MM-DD') || separator || log_functions.time_text(value::time);

-- Moments of the years 1 to 9999; one of another year is an error, or NULL if nothing may fail.
CREATE OR REPLACE FUNCTION log_functions.out_of_range(value timestamp, fails bool) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT COST 1 SET search_path = pg_catalog AS $$
BEGIN
    IF fails THEN RAISE datetime_field_overflow; END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION log_functions.in_range(value timestamptz, fails bool) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN value >= '0001-01-01Z'::timestamptz AND value < '10000-01-01Z'::timestamptz THEN value
    ELSE (log_functions.out_of_range(value AT TIME ZONE 'UTC', fails) AT TIME ZONE 'UTC')::timestamptz END;

CREATE OR REPLACE FUNCTION log_functions.in_range(value timestamp, fails bool) RETURNS timestamp
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN value >= '0001-01-01'::timestamp AND value < '10000-01-01'::timestamp THEN value
    ELSE log_functions.out_of_range(value, fails)::timestamp END;

CREATE OR REPLACE FUNCTION log_functions.in_range(value date, fails bool) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN value >= '0001-01-01'::date AND value < '10000-01-01'::date THEN value
    ELSE log_functions.out_of_range(value, fails)::date END;

-- A local time that comes twice is the first of both moments: the distance from UTC a day before tells which.
CREATE OR REPLACE FUNCTION log_functions.zoned_moment(value timestamp, zone text) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog AS $$
DECLARE
    second timestamptz := value AT TIME ZONE zone;
    before timestamptz := CASE WHEN isfinite(value) THEN second - interval '1 day' ELSE 'epoch' END;
    first timestamptz := (value - (before AT TIME ZONE zone - before AT TIME ZONE 'UTC')) AT TIME ZONE 'UTC';
BEGIN
    RETURN CASE WHEN first < second AND first AT TIME ZONE zone = value THEN first ELSE second END;
END $$;

-- NaN equals nothing, and nothing is less or greater.
CREATE OR REPLACE FUNCTION log_functions.compared(one float8, operator text, other float8) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN one <> 'NaN' AND other <> 'NaN' THEN
        CASE operator WHEN '=' THEN one = other WHEN '<>' THEN one <> other WHEN '<' THEN one < other
            WHEN '<=' THEN one <= other WHEN '>' THEN one > other ELSE one >= other END
    WHEN one IS NOT NULL AND other IS NOT NULL THEN operator = '<>' END;

-- Moments read by a pattern; `fields` has a letter for each group of the pattern, as in PARSE_TIMESTAMP:
-- Y y m b d j H I p M S, z a distance from UTC, s seconds of Unix time.
CREATE OR REPLACE FUNCTION log_functions.parsed_moment(value text, pattern text, fields text, zone text)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog AS $$
DECLARE
    parts text[] := regexp_match(btrim(value, E' \t\n\r'), pattern);
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
END $$;
