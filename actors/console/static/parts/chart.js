/**
 * Draws lines over time as SVG: axes, a legend with the present values, marks of events, and the values at the pointer or
 * at the arrow keys. Its height is fixed, so nothing moves when data comes.
 */

import { fill, h, s } from "../base/dom.js";
import * as format from "../base/format.js";

const WIDTH = 600;
const HEIGHT = 150;
const STEPS = 4;
const SPAN_MS = 15 * 60_000;
const GAP = 2.5; // points further apart than this many steps are not joined

/** Units: how a value is written, and the round step at or above one. */
export const UNITS = {
  seconds: { text: format.duration, step: secondsStep },
  millis: { text: format.millis, step: decimalStep },
  count: { text: format.short, step: decimalStep },
  rate: { text: (value) => (value === null ? "–" : `${format.short(value)}/s`), step: decimalStep },
  bytes: {
    text: (value) => (value === null ? "–" : `${format.size(value)}/s`),
    step: (least) => 2 ** Math.max(0, Math.ceil(Math.log2(least))),
  },
};

function decimalStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least * 0.999999);
}

function secondsStep(least) {
  if (least <= 0.5) return decimalStep(least);
  const round = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
  return round.find((one) => one >= least) ?? 86_400 * decimalStep(least / 86_400);
}

/** Returns the values at which an axis from 0 has lines: round steps, the last at or above `most`. */
export function ticks(most, unit) {
  if (!(most > 1e-9)) return [0, 1];
  const step = unit.step(most / STEPS);
  return Array.from({ length: Math.ceil(most / step - 1e-5) + 1 }, (_, at) => at * step);
}

/** Returns the paths of a line: points that are not known, or too far apart, are a gap. */
export function paths(times, values, place, everyMs) {
  const found = [];
  let piece = [];
  let last = -Infinity;
  times.forEach((at, index) => {
    const value = values[index];
    if (value === null || at - last > GAP * everyMs) {
      if (piece.length) found.push(piece);
      piece = [];
    }
    if (value !== null) {
      piece.push(place(at, value));
      last = at;
    }
  });
  if (piece.length) found.push(piece);
  return found.map((one) => (one.length === 1 ? `M${one[0]}h0` : `M${one.join("L")}`)).join("");
}

export class Chart {
  /** `unit`: a name of `UNITS`; `lines`: `{name, column}`. */
  constructor({ title, note = "", unit, lines }) {
    this.title = title;
    this.note = note;
    this.unit = UNITS[unit];
    this.lines = lines;
    this.element = h("figure", { class: "chart" });
    this.series = null;
    this.now = Date.now();
    this.marks = [];
    this.objective = null;
    this.why = "";
    this.at = null; // index of the point that is looked at
  }

  /**
   * Draws the series of a flow as it is now. `marks`: events `{at_ms, severity, text}`; `objective`: a value with a line
   * across; `why`: why there is no series.
   */
  update(series, { now, marks = [], objective = null, why = "" }) {
    Object.assign(this, { series, now, marks, objective, why });
    this.#draw();
  }

  /** What stands where no line is. */
  #none() {
    if (this.series) return "Nothing was measured.";
    return this.why ? "Not known." : "Loading…";
  }

  #values(line) {
    return this.series?.[line.column] ?? [];
  }

  #draw() {
    const scale = this.#scale();
    const at = this.at !== null && this.at < scale.times.length ? this.at : null;
    fill(
      this.element,
      h(
        "figcaption",
        {},
        h("span", { class: "chart-title" }, this.title),
        this.note ? h("small", {}, this.note) : null,
      ),
      h(
        "div",
        { class: "chart-body" },
        h(
          "div",
          { class: "chart-values", "aria-hidden": "true" },
          scale.isKnown ? scale.axis.toReversed().map((value) => h("span", {}, this.unit.text(value))) : null,
        ),
        this.#area(scale, at),
      ),
      h(
        "div",
        { class: "chart-times", "aria-hidden": "true" },
        [-15, -10, -5, 0].map((minutes) => h("span", {}, minutes ? `${minutes} min` : "now")),
      ),
      h(
        "ul",
        { class: "legend" },
        this.lines.map((line, number) => this.#legend(line, number)),
      ),
    );
  }

  /** Where instants and values stand, by what is known of the last minutes. */
  #scale() {
    const times = this.series?.at_ms ?? [];
    const from = this.now - SPAN_MS;
    const known = this.lines.flatMap((line) =>
      this.#values(line).filter((value, at) => value !== null && times[at] >= from),
    );
    const most = known.length ? Math.max(...known) : 0;
    const hasObjective = this.objective !== null && this.objective <= 4 * most; // else it would flatten the lines
    const axis = ticks(Math.max(most, hasObjective ? this.objective : 0), this.unit);
    const high = axis.at(-1);
    return {
      times,
      from,
      most,
      axis,
      hasObjective,
      isKnown: known.length > 0,
      x: (atMs) => (Math.max(0, Math.min(1, (atMs - from) / SPAN_MS)) * WIDTH).toFixed(1),
      y: (value) => ((1 - Math.min(1, value / high)) * HEIGHT).toFixed(1),
    };
  }

  /** The lines, and what is read with the pointer or the keys. */
  #area(scale, at) {
    const { isKnown, times } = scale;
    return h(
      "div",
      {
        class: "chart-area",
        tabindex: "0",
        role: "img",
        "aria-label": this.#summary(scale),
        on: {
          pointermove: (event) => this.#look(event),
          pointerleave: () => this.#leave(),
          keydown: (event) => this.#key(event),
          blur: () => this.#leave(),
        },
      },
      s(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        level("base", HEIGHT),
        isKnown ? this.#drawing(scale) : null,
        at !== null ? upright("look", scale.x(times[at])) : null,
      ),
      isKnown ? null : h("span", { class: "chart-none" }, this.#none()),
      at !== null ? this.#tip(times, at, scale.from) : null,
    );
  }

  #drawing({ times, from, axis, hasObjective, x, y }) {
    const shown = times.map((at, index) => [at, index]).filter(([at]) => at >= from);
    const everyMs = 1000 * this.series.every_seconds;
    const curve = (line) =>
      paths(
        shown.map(([at]) => at),
        shown.map(([, index]) => this.#values(line)[index]),
        (at, value) => `${x(at)} ${y(value)}`,
        everyMs,
      );
    return [
      axis.slice(1).map((value) => level("grid", y(value))),
      hasObjective ? level("objective", y(this.objective)) : null,
      this.marks.filter((mark) => mark.at_ms >= from).map((mark) => upright(`event ${mark.severity}`, x(mark.at_ms))),
      this.lines.map((line, number) => s("path", { class: `curve c${number}`, d: curve(line) })),
    ];
  }

  #legend(line, number) {
    const now = this.#values(line).at(-1);
    return h(
      "li",
      {},
      h("i", { class: `swatch c${number}` }),
      `${line.name} `,
      h("b", {}, this.unit.text(now ?? null)),
    );
  }

  #summary({ most, isKnown }) {
    if (!isKnown) return `${this.title}: nothing was measured in the last 15 minutes`;
    const now = this.lines
      .map((line) => `${line.name} ${this.unit.text(this.#values(line).at(-1) ?? null)}`)
      .join(", ");
    return `${this.title}: now ${now}; at most ${this.unit.text(most)} in the last 15 minutes. Arrow keys read single values.`;
  }

  #tip(times, at, from) {
    const near = this.marks.filter((mark) => Math.abs(mark.at_ms - times[at]) <= 5000);
    const side = times[at] - from > SPAN_MS / 2 ? "left" : "right";
    return h(
      "div",
      { class: `chart-tip ${side}`, role: "status" },
      h("div", { class: "soft" }, format.clock(times[at])),
      this.lines.map((line, number) =>
        h(
          "div",
          {},
          h("i", { class: `swatch c${number}` }),
          `${line.name} `,
          h("b", {}, this.unit.text(this.#values(line)[at])),
        ),
      ),
      near.slice(-3).map((mark) => h("div", { class: `tip-event ${mark.severity}` }, mark.text)),
    );
  }

  #look(event) {
    const times = this.series?.at_ms ?? [];
    if (!times.length) return;
    const box = event.currentTarget.getBoundingClientRect();
    const wanted = this.now - SPAN_MS + ((event.clientX - box.left) / box.width) * SPAN_MS;
    let best = 0;
    times.forEach((at, index) => {
      if (Math.abs(at - wanted) < Math.abs(times[best] - wanted)) best = index;
    });
    if (best !== this.at) {
      this.at = best;
      this.#draw();
    }
  }

  #key(event) {
    const last = (this.series?.at_ms.length ?? 0) - 1;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (last < 0 || (step === undefined && event.key !== "Escape")) return;
    event.preventDefault();
    this.at = step === undefined ? null : Math.max(0, Math.min(last, (this.at ?? last + 1) + step));
    this.#draw();
  }

  #leave() {
    if (this.at === null) return;
    this.at = null;
    this.#draw();
  }
}

function level(kind, y) {
  return s("line", { class: kind, x1: 0, x2: WIDTH, y1: y, y2: y });
}

function upright(kind, x) {
  return s("line", { class: kind, x1: x, x2: x, y1: 0, y2: HEIGHT });
}

/** A line without axes, for a row of a table. */
export function sparkline(series, column, label) {
  const times = series?.at_ms ?? [];
  const values = series?.[column] ?? [];
  const known = values.filter((value) => value !== null);
  const most = known.length ? Math.max(...known) : 0;
  const last = times.at(-1) ?? 0;
  const place = (at, value) =>
    `${(100 * (1 - (last - at) / SPAN_MS)).toFixed(1)} ${(23 - 21 * (most ? value / most : 0)).toFixed(1)}`;
  return s(
    "svg",
    { class: "sparkline", viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("path", { class: "curve c0", d: paths(times, values, place, 1000 * (series?.every_seconds ?? 5)) }),
  );
}
