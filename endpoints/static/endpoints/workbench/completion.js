/** What Ace offers while SQL is typed: log sources, their columns and metadata paths, @parameters, keywords. */

import { offerSteps, placeInPath } from "./metadata_steps.js";

/** @typedef {{name: string, type: string, path: string | null}} Column */
/** @typedef {{path: string, type: string, rows: number, steps: string[], column: string | null}} MetadataPath */
/** @typedef {{name: string, table: string, holds: string, columns: Column[], metadata_paths: MetadataPath[]}} Source */
/**
 * `qualifier` is what stands before the dot, where the value takes its place too.
 * @typedef {{caption: string, value: string, meta: string, score: number, docText?: string, qualifier?: string,
 *   completer?: any}} Completion
 */

const IN_PATHS = ["'", "{", ",", ">"]; // behind which a step of a path may begin
const NAME = /[@A-Za-z0-9_]/;
const READ_TABLES = /\b(?:from|join|,)\s+(?:logs\.)?(\w+)(?:\s+(?:as\s+)?(?!(?:where|join|left|on|group|order|limit|cross|inner)\b)(\w+))?/gi;

/** Ace's completers. */
export function completers(sources, parameters) {
  const ours = {
    id: "catalogue",
    triggerCharacters: ["@", ".", ...IN_PATHS],
    identifierRegexps: [NAME],
    getCompletions: (editor, session, position, prefix, answer) => {
      const line = session.getLine(position.row);
      const [before, after] = [line.slice(0, position.column - prefix.length), line.slice(position.column)];
      const isUnasked = editor.completer?.autoShown && prefix === "" && IN_PATHS.includes(before.at(-1));
      if (isUnasked && placeInPath(before) === null) {
        answer(null, []); // a comma or quote elsewhere in the SQL
        return;
      }
      const found = offers({ sql: editor.getValue(), before, after, prefix, sources: sources(), parameters: parameters() });
      for (const one of found) if (one.qualifier) one.completer = ours;
      const all = placeInPath(before + prefix) ? found : [...found, ...offerWords(before, prefix)];
      const typed = prefix.toLowerCase();
      // What is written out is not offered: Enter would take the offer where a new line is wanted.
      const isWhole = all.some(({ value }) => value.toLowerCase() === typed) || sources().some(({ name }) => name === typed);
      answer(null, isWhole ? [] : all);
    },
    insertMatch: replaceQualified,
  };
  return [ours];
}

/** Put in an expression that has the qualifier inside: t.request.url  ->  jsonb_path_query_first(t.metadata, …) */
function replaceQualified(ace, { value, qualifier }) {
  const { Range } = window.ace.require("ace/range");
  const { row, column } = ace.getCursorPosition();
  const typed = ace.completer.completions.filterText.length + qualifier.length + 1;
  ace.session.replace(new Range(row, column - typed, row, column), value);
}

/** Behind `logs.`, `t.` and a step of a path other things fit than before: Ace would only go on to narrow down what it offered. */
export function restartBehindQualifiers(ace, sources) {
  ace.commands.on("afterExec", ({ command, args }) => {
    if (command.name !== "insertstring" || !ace.completer?.activated) return;
    const { row, column } = ace.getCursorPosition();
    const before = ace.session.getLine(row).slice(0, column);
    const word = /(\w+)\.$/.exec(before)?.[1].toLowerCase();
    const aliases = readSources(ace.getValue(), sources()).map(({ alias }) => alias);
    const isQualifier = args === "." && ["logs", ...aliases].includes(word ?? "");
    if (!isQualifier && !(IN_PATHS.includes(args) && placeInPath(before))) return;
    ace.completer.detach();
    ace.execCommand("startAutocomplete");
  });
}

/** Of what shows up by itself nothing is chosen yet: Enter stays a new line until an arrow key or Tab has chosen. */
export function chooseByHand(ace) {
  const { Autocomplete } = window.ace.require("ace/autocomplete");
  const completer = Autocomplete.for(ace);
  Object.defineProperty(completer, "autoSelect", { get: () => !completer.autoShown, set: () => {} });
}

/** Words of SQL are offered where they begin with what was typed, not wherever its letters are. */
function offerWords(before, prefix) {
  if (prefix.length < 2 || /[.@]$/.test(before) || isNewName(before)) return [];
  const typed = prefix.toLowerCase();
  return WORDS.filter(({ value }) => value.startsWith(typed)).map((one) => ({ ...one, caption: one.value, score: 100 }));
}

/** What fits at the cursor; `before` is the line up to the word being typed, which is `prefix`. */
export function offers({ sql, before, after = "", prefix, sources, parameters }) {
  const place = placeInPath(before + prefix);
  if (place) return offersInPath(place, readSources(sql, sources), after);
  if (/^\d/.test(prefix) || isNewName(before)) return [];
  if (prefix.startsWith("@")) return parameters.map(offerParameter);
  if (/\blogs\.$/i.test(before)) return sources.map((source) => offerSource(source, source.name));
  const read = readSources(sql, sources);
  const qualifier = /(\w+)\.$/.exec(before)?.[1];
  if (qualifier !== undefined) {
    return read.filter(({ alias }) => alias === qualifier.toLowerCase()).flatMap(({ source }) => offerColumns(source, qualifier));
  }
  const known = new Set(read.map(({ source }) => source));
  return [
    ...sources.map((source) => offerSource(source, source.table)),
    ...[...known].flatMap((source) => offerColumns(source, "")),
    ...parameters.map(offerParameter),
  ];
}

/** The keys below a place; without a qualifier those of every source that is read. */
function offersInPath(place, read, after) {
  const qualifier = place.qualifier?.toLowerCase();
  const meant = read.filter(({ alias }) => qualifier === undefined || alias === qualifier);
  return offerSteps(place, [...new Set(meant.map(({ source }) => source))].flatMap((source) => source.metadata_paths), after);
}

/** Behind AS a name is made up, unless a query follows; Enter must not put another one there. */
function isNewName(before) {
  return /\bas\s+$/i.test(before);
}

/** The sources that the SQL reads, each with the name that its columns go by. */
function readSources(sql, sources) {
  return [...sql.matchAll(READ_TABLES)].flatMap(([, table, alias]) => {
    const source = sources.find((one) => one.name === table.toLowerCase());
    return source ? [{ source, alias: (alias ?? table).toLowerCase() }] : [];
  });
}

function offerParameter({ name, type }) {
  return { caption: `@${name}`, value: `@${name}`, meta: type, score: 900 };
}

function offerSource(source, value) {
  return { caption: value, value, meta: "log source", score: 800, docText: source.holds };
}

function offerColumns(source, qualifier) {
  const columns = source.columns.map(({ name, type, path }) => ({
    caption: name,
    value: name,
    meta: type,
    score: 700,
    docText: path ? `${source.name}: metadata ${path}` : source.name,
  }));
  const paths = source.metadata_paths.map(({ path, type, rows, column }) => ({
    caption: path,
    value: column ?? pathExpression(path, qualifier ? `${qualifier}.metadata` : "metadata"),
    qualifier: column ? "" : qualifier,
    meta: `metadata ${type}`,
    score: 500,
    docText: column ? `The extracted column ${column}` : `In ${rows} of the sampled rows of ${source.name}`,
  }));
  return [...columns, ...paths];
}

/** The text at a metadata path of a column; a lax jsonpath looks into the arrays on the way. */
function pathExpression(path, metadata) {
  const steps = path.split(".").map((step) => (/^[A-Za-z_]\w*$/.test(step) ? step : `"${step}"`));
  return `jsonb_path_query_first(${metadata}, '$.${steps.join(".")}') #>> '{}'`;
}

// The words of SQL that queries of log rows are made of; PostgreSQL's own lists have a thousand more.
const KEYWORDS = [
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

const WORDS = [
  ...KEYWORDS.map((value) => ({ value, meta: "keyword" })),
  ...FUNCTIONS.map((value) => ({ value, meta: "function" })),
];
