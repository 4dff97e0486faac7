/** One topic of a flow: how far behind, its partitions, and a pause for it alone. */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import * as format from "../base/format.js";
import { PartitionList } from "../flow/partitionlist.js";
import { confirm } from "../parts/dialog.js";
import { button, facts, notice, panel, refusal, subHead } from "../parts/parts.js";

const REFRESH_MS = 5_000;

export class TopicPage extends FlowTab {
  static tab = "topics";

  constructor(app, params, query) {
    super(app, params);
    this.topic = params.topic;
    this.list = this.add(new PartitionList(this.flow, { topic: this.topic, query, changed: () => app.update() }));
    this.now = this.addLoader((signal) => this.#load(signal), { everyMs: REFRESH_MS });
  }

  title() {
    return this.topic;
  }

  async #load(signal) {
    const found = await api.get(api.of(this.flow, "topics", { q: this.topic, limit: 1000 }), signal);
    return { row: found.topics.find((row) => row.topic === this.topic) ?? null };
  }

  body() {
    const row = this.now.found?.row;
    return [
      subHead(this.topic, "Topic", row ? this.#pauseOrResume(row) : null),
      this.now.view(() => (row ? rowView(row) : refusal("The flow has no such topic."))),
      this.now.isAnswered ? this.list.view() : null,
    ];
  }

  #pauseOrResume(row) {
    const steer = row.paused
      ? { command: "resume", verb: "Resume", text: "It is copied again from where it was." }
      : { command: "pause", verb: "Pause", text: "Only this topic stops; the others go on." };
    const sign = row.paused ? "play" : "pause";
    return button(`${steer.verb} this topic`, () => this.#steer(steer), { sign, why: this.app.whyNot("operate") });
  }

  #steer({ command, verb, text }) {
    return confirm({
      title: `${verb} ${this.topic}?`,
      text,
      verb,
      run: async () => {
        await api.post(api.of(this.flow, command), { topics: [this.topic] });
        this.now.refresh();
      },
    });
  }
}

function rowView(row) {
  return [
    panel(
      "Now",
      {},
      facts([
        ["On the target", row.target_topic],
        ["Behind", orAtLeast(row.lag_seconds, row.least_seconds, format.duration)],
        ["Records behind", orAtLeast(row.lag_records, row.least_records, format.whole)],
        ["Bytes behind", format.orNotKnown(row.lag_bytes, format.size)],
        ["Partitions that do not move", format.whole(row.stalled)],
        ["Copied since the start", `${format.whole(row.records)} records, ${format.size(row.bytes)}`],
      ]),
    ),
    row.why ? notice("attention", row.why) : null,
  ];
}

function orAtLeast(value, least, write) {
  return value === null ? `not known, at least ${write(least)}` : write(value);
}
