/** Figures as a person reads them, as engine/units.py has them. Pure. */

/** A rate or a count: `1.23M`, `45.6k`, `789`, `0.5`. */
export function short(value) {
  return inUnits(value, FACTORS);
}

/** A duration of so many seconds: `85 µs`, `1.2 ms`, `3.4 s`, `12.5 min`, `3 days`. */
export function duration(seconds) {
  return inUnits(seconds, TIMES);
}

/** A size in bytes: `1.2 kB`. */
export function bytes(value) {
  return inUnits(value, SIZES);
}

/** All digits of a whole number: `12,345`. */
export function whole(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** A share from 0 to 1: `93%`. */
export function percent(share) {
  return `${Math.round(share * 100)}%`;
}

/** The time of day of so many seconds since 1970, and the day if it is not that of `now`. */
export function moment(seconds, now) {
  const at = new Date(seconds * 1000);
  const isToday = at.toDateString() === new Date(now * 1000).toDateString();
  const time = at.toTimeString();
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return isToday ? time.slice(0, 8) : `${day} ${time.slice(0, 5)}`;
}

/** All digits of a whole number, unless they are many: `12,345`, `459M`. */
export function count(value) {
  return Math.abs(value) < 1e7 ? whole(value) : short(value);
}

/** A time since the job began: `4.2 s`, `3:07`, `2:03:07`, `3 d 02:07`. */
export function clock(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const all = Math.floor(seconds);
  const [hours, minutes] = [Math.floor(all / 3600), Math.floor(all / 60) % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${two(hours % 24)}:${two(minutes)}`;
  return hours ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

/** A metric by the unit that its name ends in: `["checkpoint", "1.2 ms"]`. */
export function metric(name, value) {
  for (const [end, factor] of ENDS) {
    if (name.endsWith(end)) return [words(name.slice(0, -end.length)), duration(value * factor)];
  }
  if (name.endsWith("_bytes")) return [words(name), bytes(value)];
  if (typeof value === "object") {
    return [words(name), Object.entries(value).map(([each, number]) => `${each}: ${whole(number)}`).join(", ")];
  }
  return [words(name), Number.isInteger(value) ? whole(value) : short(value)];
}

/** A text of at most so many characters. */
export function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function words(name) {
  return name.replaceAll("_", " ");
}

function two(number) {
  return String(number).padStart(2, "0");
}

function inUnits(value, units) {
  const [, size, unit] = units.findLast(([least]) => Math.abs(value) >= least) ?? units[0];
  return `${threeDigits(value / size)}${unit}`;
}

function threeDigits(value) {
  return Math.abs(value) < 999.5 ? String(Number(value.toPrecision(3))) : whole(value);
}

const FACTORS = [[0, 1, ""], [999.5, 1e3, "k"], [999.5e3, 1e6, "M"], [999.5e6, 1e9, "G"]];
const SIZES = FACTORS.map(([least, size, unit]) => [least, size, ` ${unit}B`]);
const TIMES = [
  [0, 1e-6, " µs"],
  [999.5e-6, 1e-3, " ms"],
  [999.5e-3, 1, " s"],
  [600, 60, " min"],
  [7200, 3600, " h"],
  [172800, 86400, " days"],
];
const ENDS = [["_us", 1e-6], ["_ms", 1e-3], ["_seconds", 1]];
