/**
 * What fits inside the path of a jsonb column: the keys that sampled rows have there, with the array elements on the way.
 *
 *   metadata #>> '{0,req      ->  request
 *   t.metadata -> 0 -> 'req   ->  'request'
 */

const LITERAL = /(?:\b(\w+)\.)?\bmetadata\s*#>>?\s*'\{([^'{}]*)$/i;
const CHAIN = /(?:\b(\w+)\.)?\bmetadata((?:\s*->\s*(?:\d+|'[^']*'))*)\s*(->>?)\s*('?)([\w-]*)$/i;

/**
 * Where the cursor is in a path; null where it is in none. `done` are the steps before it.
 * @typedef {{qualifier: string | null, done: string[], operator: string, isQuoted: boolean, typed: string}} Place
 */

/** The place of a cursor behind this text, of which the last word may just be typed. */
export function placeInPath(text) {
  const literal = LITERAL.exec(text);
  if (literal) {
    const steps = literal[2].split(",").map((step) => step.trim().replace(/^"|"$/g, ""));
    return { qualifier: literal[1] ?? null, done: steps.slice(0, -1), operator: "#>", isQuoted: true, typed: steps.at(-1) };
  }
  const chain = CHAIN.exec(text);
  if (chain === null) return null;
  const [, qualifier, links, operator, quote, typed] = chain;
  const done = [...links.matchAll(/->\s*(?:(\d+)|'([^']*)')/g)].map(([, index, key]) => index ?? key);
  return { qualifier: qualifier ?? null, done, operator, isQuoted: quote !== "", typed };
}

/**
 * The completions at a place, of these metadata paths; `after` is the text behind the cursor.
 * A key behind an element comes with it: `0,request`.
 */
export function offerSteps(place, paths, after) {
  const offers = new Map();
  for (const { path, type, rows, steps } of paths) {
    const rest = restOf(steps, place.done);
    if (rest === null) continue;
    const next = rest.findIndex((step) => !isIndex(step));
    const isLast = next === rest.length - 1 || rest.slice(next + 1).every(isIndex);
    const value = next < 0 ? null : written(place, rest.slice(0, next + 1), after);
    if (value === null || offers.has(value)) continue;
    const docText = isLast ? `${path}: in ${rows} of the sampled rows` : `Keys are below ${rest[next]}`;
    offers.set(value, { caption: rest[next], value, meta: isLast ? type : "object", score: 950, docText });
  }
  return [...offers.values()];
}

function restOf(steps, done) {
  if (steps.length <= done.length) return null;
  const fits = done.every((step, index) => step === steps[index] || (isIndex(step) && isIndex(steps[index])));
  return fits ? steps.slice(done.length) : null;
}

function written({ operator, isQuoted }, steps, after) {
  if (operator === "#>") return steps.join(",");
  if (isQuoted) return steps.length > 1 ? null : `${steps[0]}${after.startsWith("'") ? "" : "'"}`;
  // ->> gives text, which has no keys.
  if (operator === "->>" && steps.length > 1) return null;
  return steps.map((step) => (isIndex(step) ? step : `'${step}'`)).join(" -> ");
}

function isIndex(step) {
  return /^-?\d+$/.test(step);
}
