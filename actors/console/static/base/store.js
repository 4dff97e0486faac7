/** What the page knows of the mirror, kept fresh by the stream. Pages read it; only this module changes it. */

import * as api from "./api.js";
import { Live } from "./live.js";

const MOST_EVENTS = 500;
const MOST_POINTS = 180;
const GRACE_MS = 3_000; // a stream that is found again at once is not worth a notice
const SILENT_MS = 20_000; // the server sends a comment every 15 s
const AGAIN_MS = 5_000; // after which a series that was refused is asked for again
const COLUMNS = [
  "at_ms",
  "lag_records",
  "lag_bytes",
  "lag_seconds",
  "records_per_second",
  "bytes_per_second",
  "append_p50_ms",
  "append_p99_ms",
  "copied_p50_ms",
  "copied_p99_ms",
];

export class Store {
  /** `changed(kind)` is called after each change. */
  constructor(changed) {
    this.changed = changed;
    this.mirror = null;
    this.clusters = [];
    this.flows = new Map();
    this.events = [];
    this.series = new Map();
    this.refusals = new Map(); // by flow: why there is no series
    this.previews = new Map(); // by flow: when its last preview was made, and how much applications would miss
    this.state = "lost";
    this.why = "";
    this.lostMs = 0; // since when no stream is live although the page is looked at, by the clock of the browser
    this.skewMs = 0;
    this.live = null;
  }

  /** Follows the mirror until `stop`. */
  start() {
    this.live = new Live(
      {
        snapshot: (page) => this.#snapshot(page),
        mirror: (mirror) => this.#mirror(mirror),
        flow: (flow) => this.#flow(flow),
        event: (event) => this.#event(event),
        point: (point) => this.#point(point),
      },
      (state, why = "") => this.#said(state, why),
    );
    this.live.start();
  }

  stop() {
    this.live?.stop();
    this.live = null;
  }

  /** The time of the server, in Unix ms: the clocks of two machines differ. */
  now() {
    return Date.now() + this.skewMs;
  }

  flow(name) {
    return this.flows.get(name) ?? null;
  }

  /** Returns the series of a flow; asks for it the first time. */
  seriesOf(flow) {
    if (!this.series.has(flow)) {
      this.series.set(flow, null);
      this.#ask(flow);
    }
    return this.series.get(flow);
  }

  /** Why there is no series of a flow; empty if there is one, or it is still loading. */
  whyNoSeries(flow) {
    return this.refusals.get(flow) ?? "";
  }

  async #ask(flow) {
    try {
      this.series.set(flow, await api.get(api.of(flow, "series")));
      this.refusals.delete(flow);
    } catch (error) {
      this.refusals.set(flow, error.message);
      setTimeout(() => this.#forget(flow), AGAIN_MS);
    }
    this.changed("point");
  }

  /** Lets a series be asked for again by the page that draws it. */
  #forget(flow) {
    if (this.series.get(flow) === null) this.series.delete(flow);
    this.changed("point");
  }

  /** Of when (Unix ms of the server) what is shown is, if that may be old; null while the stream is live. */
  staleSince() {
    if (this.state === "paused" || !this.mirror) return null;
    const heardMs = this.live?.heardMs ?? 0;
    const isOld = this.state === "live" ? Date.now() - heardMs > SILENT_MS : Date.now() - this.lostMs > GRACE_MS;
    return isOld || this.state === "ended" ? heardMs + this.skewMs : null;
  }

  #said(state, why) {
    if ((this.state === "live" || this.state === "paused") && state !== this.state) this.lostMs = Date.now();
    this.state = state;
    this.why = why;
    if (state === "live") for (const [flow, known] of this.series) if (known) this.#ask(flow); // what was missed
    this.changed("state");
  }

  #snapshot(page) {
    this.#clock(page.mirror.at_ms);
    this.mirror = page.mirror;
    this.clusters = page.clusters;
    this.flows = new Map(page.flows.map((flow) => [flow.flow, flow]));
    this.events = [];
    this.changed("flow");
  }

  #clock(atMs) {
    this.skewMs = atMs - Date.now();
  }

  #mirror(mirror) {
    this.#clock(mirror.at_ms);
    this.mirror = mirror;
    this.changed("mirror");
  }

  #flow(flow) {
    this.flows.set(flow.flow, flow);
    this.changed("flow");
  }

  #event(event) {
    this.events.push(event);
    if (this.events.length > MOST_EVENTS) this.events.shift();
    this.changed("event");
  }

  #point(point) {
    const series = this.series.get(point.flow);
    if (!series) return;
    if (series.at_ms.length && series.at_ms.at(-1) >= point.at_ms) return;
    for (const name of COLUMNS) {
      series[name].push(point[name]);
      if (series[name].length > MOST_POINTS) series[name].shift();
    }
    this.changed("point");
  }
}
