/** One partition: why it does not move, and how far it is on both sides. */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";
import { notDiscovered } from "../flow/words.js";
import { eventList, facts, notice, panel, refusal, stateHealth, time } from "../parts/parts.js";

const REFRESH_MS = 2_000;
const MOST_EVENTS = 20;

export class PartitionPage extends FlowTab {
  static tab = "partitions";

  constructor(app, params) {
    super(app, params);
    this.topic = params.topic;
    this.partition = Number(params.partition);
    this.now = this.addLoader((signal) => this.#load(signal), { everyMs: REFRESH_MS });
  }

  title() {
    return `${this.topic}-${this.partition}`;
  }

  async #load(signal) {
    const query = { topic: this.topic, q: this.title(), limit: 1000 };
    const found = await api.get(api.of(this.flow, "partitions", query), signal);
    const row = found.partitions.find((one) => one.partition === this.partition) ?? null;
    return { row, why: notDiscovered(found, "It is") || "The flow has no such partition." };
  }

  body() {
    return [
      h(
        "h2",
        { class: "part-name" },
        h("a", { href: path("flows", this.flow, "topics", this.topic) }, this.topic),
        `-${this.partition}`,
      ),
      this.now.view(({ row, why }) => (row ? this.#row(row) : refusal(why))),
    ];
  }

  #row(row) {
    const events = this.#eventsOf(row).slice(-MOST_EVENTS).reverse();
    return [
      verdict(row),
      progress(row),
      h("div", { class: "columns" }, panel("Behind", {}, behindFacts(row)), panel("Where it is", {}, placeFacts(row))),
      panel("What has happened", {}, eventList(events, { withFlow: false })),
    ];
  }

  #eventsOf(row) {
    const names = [this.title(), row.owner, row.set_id].filter(Boolean);
    return this.app.store.events.filter(
      (event) =>
        event.flow === this.flow &&
        names.some((name) => event.about === name || event.set_id === name || event.text.includes(name)),
    );
  }
}

/** Says in a sentence why the partition does not move, or that it does. */
function verdict(row) {
  const health = row.why && stateHealth(row.state) === "ok" ? "attention" : stateHealth(row.state);
  return notice(health, h("b", {}, row.state), h("br"), row.why || howFar(row));
}

function howFar(row) {
  if (row.lag_records === null) return "How far it is behind is not known.";
  if (row.lag_records) return `It is copied, and ${format.counted(row.lag_records, "record")} behind.`;
  return "It is in step: every record is on the target.";
}

/** The log of the source as a bar: what is proven, what is copied, what is not. */
function progress(row) {
  const end = row.source_end;
  if (end <= 0 || row.source_next < 0) return null;
  const share = (offset) => Math.max(0, Math.min(100, (100 * offset) / end));
  const proven = row.proven_to === null ? 0 : share(row.proven_to);
  const copied = `copied to offset ${format.offset(row.source_next)} of ${format.offset(end)}`;
  const text = row.proven_to === null ? copied : `${copied}, proven to ${format.offset(row.proven_to)}`;
  return h("figure", { class: "log" }, h("figcaption", {}, text), logBar(share(row.source_next), proven, text));
}

function logBar(copied, proven, text) {
  const bar = h(
    "div",
    { class: "log-bar", role: "img", "aria-label": text },
    h("i", { class: "log-copied" }),
    h("i", { class: "log-proven" }),
  );
  bar.firstChild.style.setProperty("width", `${copied.toFixed(2)}%`);
  bar.lastChild.style.setProperty("width", `${proven.toFixed(2)}%`);
  return bar;
}

function behindFacts(row) {
  const isKnown = row.lag_records !== null;
  return facts([
    ["Records", format.orNotKnown(row.lag_records, format.whole)],
    ["Bytes", format.orNotKnown(row.lag_bytes, format.size)],
    ["Age of the oldest", format.orNotKnown(row.lag_seconds, format.duration)],
    row.heard_seconds_ago === null
      ? ["The source has reported its end", "never"]
      : ["The source reported its end", `${format.duration(row.heard_seconds_ago)} ago`],
    isKnown || row.heard_lag_records === null
      ? null
      : [
          "Behind at that time",
          `${format.counted(row.heard_lag_records, "record")}, ${format.duration(row.heard_lag_seconds)}`,
        ],
    ["Newest record copied", time(row.newest_ms, format.instant)],
    ["Last append", time(row.appended_at_ms, format.instant)],
  ]);
}

function placeFacts(row) {
  return facts([
    ["Source, next offset", format.offset(row.source_next)],
    ["Source, end", format.offset(row.source_end)],
    ["Target topic", row.target_topic],
    ["Target, next offset", format.offset(row.target_next)],
    ["Proven to", row.proven_to === null ? "not proven" : format.offset(row.proven_to)],
    ["Copier", row.owner || "none"],
    ["Set, epoch", row.set_id ? `${row.set_id}, ${format.offset(row.epoch)}` : "–"],
  ]);
}
