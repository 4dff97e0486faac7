/** Writes numbers, sizes, durations and times: three digits, a unit, and the same words as the command line. */

const DAY_S = 86_400;
const ENGLISH = new Intl.NumberFormat("en");

/** A number with separators, `–` if it is not known. */
export function whole(value) {
  return value === null || value === undefined ? "–" : ENGLISH.format(Math.round(value));
}

/** "1 partition", "3 partitions". */
export function counted(count, word, plural = `${word}s`) {
  return `${whole(count)} ${count === 1 ? word : plural}`;
}

function digits(value) {
  return String(Number(value.toPrecision(3)));
}

const COUNTS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const BYTES = [
  [1024 ** 4, "TiB"],
  [1024 ** 3, "GiB"],
  [1024 ** 2, "MiB"],
  [1024, "KiB"],
];

/** A number in the largest unit that it reaches; `below` is that of smaller ones. */
function scaled(value, units, below) {
  if (value === null || value === undefined) return "–";
  const [unit, name] = units.find(([least]) => Math.round(value) >= least) ?? [1, below];
  return `${digits(value / unit)} ${name}`.trimEnd();
}

/** A number with three digits. */
export function short(value) {
  return scaled(value, COUNTS, "");
}

/** Bytes with three digits. */
export function size(value) {
  return scaled(value, BYTES, "B");
}

/** A duration with three digits, or in its two largest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds > 0 ? `${digits(seconds * 1000)} ms` : "0 s";
  if (seconds < 60) return `${digits(seconds)} s`;
  const total = Math.round(seconds);
  for (const [length, name, part, parts] of [
    [DAY_S, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ]) {
    if (total >= length) {
      const rest = Math.floor((total % length) / part);
      const large = `${Math.floor(total / length)} ${name}`;
      return rest ? `${large} ${rest} ${parts}` : large;
    }
  }
  return `${total} s`;
}

/** A duration in whole seconds: for numbers that change each second, so that they do not jump in width. */
export function age(seconds) {
  return seconds === null || seconds === undefined ? "–" : duration(Math.max(0, Math.round(seconds)));
}

/** A duration given in ms. */
export function millis(ms) {
  return ms === null || ms === undefined ? "–" : duration(ms / 1000);
}

function parts(ms) {
  return new Date(ms).toISOString();
}

/** The time of day in UTC, as in logs. */
export function clock(ms) {
  return ms === null || ms === undefined || ms < 0 ? "–" : `${parts(ms).slice(11, 19)}Z`;
}

/** Date and time in UTC. */
export function instant(ms) {
  return ms === null || ms === undefined || ms < 0 ? "–" : `${parts(ms).slice(0, 10)} ${parts(ms).slice(11, 19)}Z`;
}

/** The same in the time of this browser, for a tooltip. */
export function local(ms) {
  return ms === null || ms === undefined || ms < 0 ? "" : `${new Date(ms).toLocaleString()} here`;
}

/** An offset; -1 and null are not known. */
export function offset(value) {
  return value === null || value === undefined || value < 0 ? "–" : ENGLISH.format(value);
}

/** Shortens a long name in its middle. */
export function middle(name, most) {
  const half = Math.floor((most - 1) / 2);
  return name.length <= most ? name : `${name.slice(0, half)}…${name.slice(-half)}`;
}

/** The name of a flow as a person reads it, never cut at its arrow. Commands and addresses have `A->B`. */
export function flow(name) {
  return name.replace("->", "\u00a0→\u00a0");
}

/** A text that begins a sentence. */
export function capital(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}`;
}

/** A value as `write` writes it; a value that is null is not known. */
export function orNotKnown(value, write) {
  return value === null ? "not known" : write(value);
}
