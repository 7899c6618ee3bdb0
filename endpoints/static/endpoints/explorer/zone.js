/** Which clock the page shows: UTC, or the browser's own. What is sent to the service is always in UTC. */

import * as utc from "../shared/time_axis.js";
import { recall, remember } from "./preferences.js";

const MINUTE = 60_000;
let isLocal = recall("zone") === "local";

export function showsLocalTime() {
  return isLocal;
}

export function showLocalTime(wished) {
  isLocal = wished;
  remember("zone", wished ? "local" : "utc");
}

/** What the browser calls its zone, such as Europe/Berlin. */
export function localZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

export function zoneName() {
  return isLocal ? localZone() : "UTC";
}

/** 2026-01-31 08:00:00 by the clock that is shown, with milliseconds only where there are any. */
export function writeMoment(moment) {
  const time = new Date(moment).getTime();
  return utc.writeMoment(time + ahead(time));
}

/** A stretch of time in words. */
export function between(start, end) {
  return `${writeMoment(start)} to ${writeMoment(end)} ${zoneName()}`;
}

/** As the ticks of `time_axis`, at round moments of the clock that is shown. */
export function timeTicks(first, last, pixels) {
  const offset = ahead(first);
  return utc.timeTicks(first + offset, last + offset, pixels).map(({ value, text }) => {
    const time = value - ahead(value - offset); // the clock may be changed in between
    return { value: time, text };
  });
}

/** As a field of date and time takes it: 2026-01-31T08:00:00. */
export function writeField(moment) {
  return writeMoment(moment).replace(" ", "T");
}

/** The moment that such a field says, or null. */
export function readField(text) {
  const moment = new Date(isLocal ? text : `${text}Z`);
  return text === "" || Number.isNaN(moment.getTime()) ? null : moment;
}

/** By how many milliseconds the clock is ahead of UTC at a moment. */
function ahead(time) {
  return isLocal ? -new Date(time).getTimezoneOffset() * MINUTE : 0;
}
