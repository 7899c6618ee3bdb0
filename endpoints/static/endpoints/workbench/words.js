/** The words of SQL that queries of log rows are made of; PostgreSQL's own lists have a thousand more. */

const KEY_WORDS = [
  "all", "and", "any", "array", "as", "asc", "at time zone", "between", "case", "cast", "cross join",
  "current_date", "current_timestamp", "desc", "distinct", "distinct on", "else", "end", "except", "exists",
  "extract", "false", "filter", "from", "full join", "group by", "grouping sets", "having", "ilike", "in",
  "inner join", "intersect", "interval", "is not null", "is null", "join", "jsonb", "lateral", "left join",
  "like", "limit", "materialized", "not", "nulls first", "nulls last", "numeric", "offset", "on", "or",
  "order by", "over", "partition by", "range", "right join", "rows", "select", "then", "timestamptz", "true",
  "union", "union all", "using", "values", "when", "where", "window", "with", "within group",
];

const FUNCTIONS = [
  "abs", "age", "array_agg", "array_length", "avg", "bool_and", "bool_or", "ceil", "char_length", "coalesce",
  "concat", "concat_ws", "count", "cume_dist", "date_bin", "date_part", "date_trunc", "dense_rank", "exp",
  "first_value", "floor", "format", "generate_series", "greatest", "initcap", "json_agg", "json_build_object",
  "jsonb_agg", "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_array_length", "jsonb_build_object",
  "jsonb_each", "jsonb_each_text", "jsonb_extract_path_text", "jsonb_object_agg", "jsonb_path_exists",
  "jsonb_path_match", "jsonb_path_query", "jsonb_path_query_array", "jsonb_path_query_first", "jsonb_typeof",
  "lag", "last_value", "lead", "least", "left", "length", "ln", "log", "lower", "lpad", "ltrim", "make_interval",
  "max", "md5", "min", "mod", "mode", "now", "ntile", "nullif", "percent_rank", "percentile_cont",
  "percentile_disc", "position", "power", "rank", "regexp_count", "regexp_match", "regexp_matches",
  "regexp_replace", "regexp_split_to_table", "regexp_substr", "replace", "right", "round", "row_number", "rpad",
  "rtrim", "split_part", "sqrt", "starts_with", "stddev", "string_agg", "string_to_array", "strpos", "substring",
  "sum", "to_char", "to_date", "to_jsonb", "to_number", "to_timestamp", "trim", "trunc", "unnest", "upper",
  "variance", "width_bucket",
];

/** @type {{value: string, meta: string}[]} */
export const WORDS = [
  ...KEY_WORDS.map((value) => ({ value, meta: "key word" })),
  ...FUNCTIONS.map((value) => ({ value, meta: "function" })),
];
