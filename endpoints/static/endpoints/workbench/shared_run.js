/**
 * A run in the page's address, for a colleague: the arguments, the consumer's query, redaction. It is in the fragment,
 * which browsers send to no server, and nothing runs before somebody clicks Run. The stored SQL is not in it.
 *
 *   #@project=acme&@since=2026-01-01T00%3A00&lql=l%3A5&redact=true&version=7
 */

const MOST_CHARACTERS = 16_000; // longer addresses do not survive mail and chat

/**
 * `fields` are the arguments by name as typed, "sql" or "lql" a consumer's query.
 * @typedef {{fields: Record<string, string>, sql: string, lql: string, redact: boolean, version: number}} SharedRun
 */

/** The fragment of a run; null if it would be too long. */
export function writeRun({ fields, sql = "", lql = "", redact, version }) {
  const parts = Object.entries(fields).filter(([, value]) => value.trim() !== "").map(([name, value]) => [`@${name}`, value]);
  if (sql) parts.push(["sql", sql]);
  if (lql) parts.push(["lql", lql]);
  if (redact) parts.push(["redact", "true"]);
  parts.push(["version", String(version)]);
  const text = `#${parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
  return text.length > MOST_CHARACTERS ? null : text;
}

/** The run in a fragment; null if there is none. */
export function readRun(fragment) {
  const parts = new URLSearchParams(fragment.slice(1));
  const version = parts.get("version") ?? "";
  if (!/^\d{1,9}$/.test(version)) return null;
  const fields = [...parts].filter(([name]) => /^@\w+$/.test(name)).map(([name, value]) => [name.slice(1), value]);
  return {
    fields: Object.fromEntries(fields),
    sql: parts.get("sql") ?? "",
    lql: parts.get("lql") ?? "",
    redact: parts.get("redact") === "true",
    version: Number(version),
  };
}
