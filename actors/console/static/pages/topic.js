/** One topic of a flow: how far behind, its partitions, and a pause for it alone. */

import * as api from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { facts, flowHead, loading, panel, refusal } from "../parts.js";
import { PartitionList } from "./partitions.js";

const REFRESH_MS = 5_000;

export class TopicPage {
  constructor(app, { flow, topic }, query) {
    this.app = app;
    this.flow = flow;
    this.topic = topic;
    this.row = null;
    this.refused = "";
    this.list = new PartitionList(flow, { topic, query, changed: () => app.update() });
  }

  title() {
    return this.topic;
  }

  start() {
    this.abort = new AbortController();
    this.list.start();
    this.#load();
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
    this.list.stop();
  }

  async #load() {
    const { signal } = this.abort;
    clearTimeout(this.timer);
    try {
      if (!document.hidden) {
        const found = await api.get(api.of(this.flow, "topics", { q: this.topic, limit: 1000 }), signal);
        this.row = found.topics.find((row) => row.topic === this.topic) ?? null;
        this.refused = this.row ? "" : "The flow has no such topic.";
      }
    } catch (error) {
      if (signal.aborted) return;
      this.refused = error.message;
    }
    this.app.update();
    this.timer = setTimeout(() => this.#load(), REFRESH_MS);
  }

  #steer(command, title, text, verb) {
    return confirm({
      title,
      text,
      verb,
      run: async () => {
        await api.post(api.of(this.flow, command), { topics: [this.topic] });
        this.#load();
      },
    });
  }

  view() {
    const { row } = this;
    const may = this.app.may("operate");
    const pause = () =>
      this.#steer("pause", `Pause ${this.topic}?`, "Only this topic stops; the others go on.", "Pause");
    const resume = () =>
      this.#steer("resume", `Resume ${this.topic}?`, "It is copied again from where it was.", "Resume");
    const [sign, text, run] = row?.paused
      ? ["play", "Resume this topic", resume]
      : ["pause", "Pause this topic", pause];
    return [
      flowHead(this.app, this.flow, "topics"),
      h(
        "div",
        { class: "sub-head" },
        h("h2", { class: "part-name" }, this.topic),
        h("span", { class: "grow" }),
        row
          ? h(
              "button",
              {
                type: "button",
                class: "button",
                disabled: !may,
                title: may ? null : "Needs the role operate",
                on: { click: run },
              },
              icon(sign),
              h("span", {}, text),
            )
          : null,
      ),
      this.refused ? refusal(this.refused) : null,
      row ? panel("Now", {}, facts(rows(row))) : this.refused ? null : loading(),
      row?.why ? h("p", { class: "notice attention" }, icon("attention"), h("span", {}, row.why)) : null,
      this.list.view(),
    ];
  }
}

function rows(row) {
  return [
    ["On the target", row.target_topic],
    [
      "Behind",
      row.lag_seconds === null
        ? `not known, at least ${format.duration(row.least_seconds)}`
        : format.duration(row.lag_seconds),
    ],
    [
      "Records behind",
      row.lag_records === null
        ? `not known, at least ${format.whole(row.least_records)}`
        : format.whole(row.lag_records),
    ],
    ["Bytes behind", format.size(row.lag_bytes)],
    ["Partitions that do not move", format.whole(row.stalled)],
    ["Copied since the start", `${format.whole(row.records)} records, ${format.size(row.bytes)}`],
  ];
}
