/** One partition: why it does not move, and how far it is on both sides. */

import * as api from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { eventList, facts, flowHead, loading, panel, refusal, stateHealth, time } from "../parts.js";
import { path } from "../router.js";

const REFRESH_MS = 2_000;

export class PartitionPage {
  constructor(app, { flow, topic, partition }) {
    this.app = app;
    this.flow = flow;
    this.topic = topic;
    this.partition = Number(partition);
    this.row = null;
    this.refused = "";
  }

  title() {
    return `${this.topic}-${this.partition}`;
  }

  start() {
    this.abort = new AbortController();
    this.#load();
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  async #load() {
    const { signal } = this.abort;
    try {
      if (!document.hidden) {
        const found = await api.get(
          api.of(this.flow, "partitions", { topic: this.topic, q: this.title(), limit: 1000 }),
          signal,
        );
        this.row = found.partitions.find((row) => row.partition === this.partition) ?? null;
        this.refused = this.row
          ? ""
          : found.not_discovered
            ? `It is not known yet: the flow waits for ${found.not_discovered}.`
            : "The flow has no such partition.";
      }
    } catch (error) {
      if (signal.aborted) return;
      this.refused = error.message;
    }
    this.app.update();
    this.timer = setTimeout(() => this.#load(), REFRESH_MS);
  }

  view() {
    const head = [
      flowHead(this.app, this.flow, "partitions"),
      h(
        "h2",
        { class: "part-name" },
        h("a", { href: path("flows", this.flow, "topics", this.topic) }, this.topic),
        `-${this.partition}`,
      ),
    ];
    if (!this.row) return [head, this.refused ? refusal(this.refused) : loading()];
    const { row } = this;
    return [
      head,
      this.refused ? refusal(this.refused) : null,
      verdict(row),
      progress(row),
      h("div", { class: "columns" }, panel("Behind", {}, behindFacts(row)), panel("Where it is", {}, placeFacts(row))),
      panel("What has happened", {}, eventList(this.#events().slice(-20).reverse(), { withFlow: false })),
    ];
  }

  #events() {
    const names = [this.title(), this.row.owner, this.row.set_id].filter(Boolean);
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
  let text = row.why;
  if (!text && row.lag_records === null) text = "How far it is behind is not known.";
  if (!text)
    text = row.lag_records
      ? `It is copied, and ${format.counted(row.lag_records, "record")} behind.`
      : "It is in step: every record is on the target.";
  return h("div", { class: `notice ${health}` }, icon(health), h("div", {}, h("b", {}, row.state), h("br"), text));
}

/** The log of the source as a bar: what is proven, what is copied, what is not. */
function progress(row) {
  const end = row.source_end;
  if (end <= 0 || row.source_next < 0) return null;
  const share = (offset) => Math.max(0, Math.min(100, (100 * offset) / end));
  const proven = row.proven_to === null ? 0 : share(row.proven_to);
  const text = `copied to offset ${format.offset(row.source_next)} of ${format.offset(end)}${row.proven_to === null ? "" : `, proven to ${format.offset(row.proven_to)}`}`;
  return h("figure", { class: "log" }, h("figcaption", {}, text), barOf(share(row.source_next), proven, text));
}

function barOf(copied, proven, text) {
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
    ["Records", isKnown ? format.whole(row.lag_records) : "not known"],
    ["Bytes", row.lag_bytes === null ? "not known" : format.size(row.lag_bytes)],
    ["Age of the oldest", row.lag_seconds === null ? "not known" : format.duration(row.lag_seconds)],
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
