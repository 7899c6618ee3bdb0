/** How LQL writes the path of a field: names between dots, those with other characters in quotes. Pure. */

/** The path of these names: metadata."x-real-ip" */
export function writePath(keys) {
  return keys.map((key) => (/^\w+$/.test(key) ? key : quoted(key))).join(".");
}

/** The names of a path; m. is short for metadata. */
export function readPath(path) {
  const parts = [...path.replace(/^m\./, "metadata.").matchAll(/"((?:[^"\\]|\\.)*)"|[^."]+/gs)];
  return parts.map(([whole, inside]) => inside?.replace(/\\(["\\])/g, "$1") ?? whole);
}

/** Text in double quotes. */
export function quoted(text) {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}
