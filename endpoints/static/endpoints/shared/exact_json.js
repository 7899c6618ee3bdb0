/** JSON read, written, laid out, added and compared without losing a digit: a bigint or numeric may have more than a
 * JavaScript number holds. */

/** A number with the text that PostgreSQL wrote it as; JSON.stringify alone does not know it, `writeExactly` does. */
export class ExactNumber {
  constructor(text) {
    this.value = Number(text);
    this.text = text;
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return MARK + this.text;
  }
}

// Stands before a number's text while JSON.parse and JSON.stringify take it for a string: not every browser gives them
// the source of a number. It is drawn anew by each page, so no text that somebody has stored begins with it.
const MARK = `number ${Math.random()} `;
const MARKED = new RegExp(`"${MARK}([^"]*)"`, "g");
const STRING = String.raw`"[^"\\]*(?:\\.[^"\\]*)*"`;
const NUMBERS = new RegExp(String.raw`(${STRING})|-?\d[\d.eE+-]*`, "g");

/** As JSON.parse, each number as ExactNumber. */
export function parseExactly(text) {
  const marked = text.replace(NUMBERS, (token, string) => string ?? `"${MARK}${token}"`);
  return JSON.parse(marked, (_key, value) =>
    typeof value === "string" && value.startsWith(MARK) ? new ExactNumber(value.slice(MARK.length)) : value,
  );
}

/** As JSON.stringify, each ExactNumber with its own text. */
export function writeExactly(value, spaces = 0) {
  return JSON.stringify(value, null, spaces)?.replaceAll(MARKED, "$1");
}

const TOKEN = new RegExp(String.raw`${STRING}|[{}[\],:]|[^\s{}[\],:"]+`, "g");

/** Lay JSON out with one value a line; empty objects and arrays stay on theirs. */
export function layOut(text) {
  const lines = [];
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    const opened = before === "{" || before === "[";
    if (closes) depth -= 1;
    if ((closes && !opened) || (!closes && opened) || before === ",") lines.push(`\n${"  ".repeat(depth)}`);
    lines.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return lines.join("");
}

/** The sum of the texts of numbers; that of a single one is its own text. */
export function sumExactly(texts) {
  if (texts.length === 1) return texts[0];
  const all = texts.map(parts);
  const places = all.reduce((most, one) => Math.max(most, one.places), 0);
  const whole = ({ sign, digits, places: own }) => BigInt(sign + (digits || "0")) * 10n ** BigInt(places - own);
  const sum = all.reduce((total, one) => total + whole(one), 0n);
  const digits = String(sum < 0n ? -sum : sum).padStart(places + 1, "0");
  const point = digits.length - places;
  return (sum < 0n ? "-" : "") + `${digits.slice(0, point)}.${digits.slice(point)}`.replace(/\.?0*$/, "");
}

/** Which of two texts of numbers is the greater one: -1 for the second, 1 for the first, 0 for none. */
export function compareExactly(one, other) {
  const rough = Number(one) - Number(other);
  if (rough) return Math.sign(rough);
  // Doubles cannot tell them apart: the sign, the magnitude, then digit by digit.
  const [left, right] = [one, other].map(parts);
  const [sign, otherSign] = [left, right].map((each) => (each.digits ? Number(`${each.sign}1`) : 0));
  const digits = left.digits < right.digits ? -1 : Number(left.digits > right.digits);
  return Math.sign(sign - otherSign || sign * (left.magnitude - right.magnitude || digits));
}

/** The least and the greatest of the texts of numbers. */
export function extremes(texts) {
  const farthest = (sign) => texts.reduce((one, other) => (sign * compareExactly(other, one) > 0 ? other : one));
  return [farthest(-1), farthest(1)];
}

/** Numbers of the same value, and only these, have the same key. */
export function numberKey(text) {
  const { sign, digits, magnitude } = parts(text);
  return digits && `${sign}0.${digits}e${magnitude}`;
}

/** -0.0120 -> the sign -, the digits 12, of which 3 are decimal places, and the magnitude of 0.12e-1. */
function parts(text) {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  const all = (whole + fraction).replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  const behind = fraction.length - Number(exponent);
  return { sign, digits, places: behind - (all.length - digits.length), magnitude: all.length - behind };
}
