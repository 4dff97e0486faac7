/** One flow now: the three answers, how far behind it is over time, what stands still, and who copies. */

import { FlowTab } from "./page.js";
import { h, slot } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";
import { answerTiles, partitionsThat } from "../flow/answers.js";
import { proofText } from "../flow/words.js";
import { Chart } from "../parts/chart.js";
import { bar, eventList, facts, note, noteList, panel, refusal, stateHealth, troubleList } from "../parts/parts.js";
import { plainTable } from "../parts/plaintable.js";

const MOST_EVENTS = 12;
const CHARTS = {
  lag: {
    title: "Behind",
    note: "age of the oldest record that is not copied",
    unit: "seconds",
    lines: [{ name: "behind", column: "lag_seconds" }],
  },
  records: {
    title: "Records not copied",
    unit: "count",
    lines: [{ name: "records", column: "lag_records" }],
  },
  count: {
    title: "Records copied",
    unit: "rate",
    lines: [{ name: "records", column: "records_per_second" }],
  },
  rate: {
    title: "Throughput",
    note: "on the wire",
    unit: "bytes",
    lines: [{ name: "bytes", column: "bytes_per_second" }],
  },
  copied: {
    title: "From timestamp to target",
    unit: "millis",
    lines: [
      { name: "p50", column: "copied_p50_ms" },
      { name: "p99", column: "copied_p99_ms" },
    ],
  },
  append: {
    title: "Append latency",
    note: "one produce request",
    unit: "millis",
    lines: [
      { name: "p50", column: "append_p50_ms" },
      { name: "p99", column: "append_p99_ms" },
    ],
  },
};

export class FlowPage extends FlowTab {
  static tab = "";

  constructor(app, params) {
    super(app, params);
    this.charts = Object.entries(CHARTS).map(([name, about]) => [name, new Chart(about)]);
  }

  title() {
    return this.flow;
  }

  start() {
    super.start();
    this.#draw();
  }

  changed(kind) {
    if (kind === "point" || kind === "event") this.#draw();
  }

  #events() {
    return this.app.store.events.filter((event) => event.flow === this.flow);
  }

  #draw() {
    const { store } = this.app;
    const series = store.seriesOf(this.flow);
    const marks = this.#events();
    const objective = store.flow(this.flow)?.rpo_objective_seconds ?? null;
    const now = store.now();
    const why = store.whyNoSeries(this.flow);
    for (const [name, chart] of this.charts) {
      chart.update(series, { now, marks, why, objective: name === "lag" ? objective : null });
    }
  }

  body() {
    const { store } = this.app;
    const flow = store.flow(this.flow);
    if (!flow) return null;
    const why = store.whyNoSeries(this.flow);
    return [
      troubleList(troubles(flow)),
      answerTiles(flow, [flow], store),
      why ? refusal(`What was measured is not shown: ${why}`) : null,
      h(
        "div",
        { class: "charts" },
        this.charts.map(([name, chart]) => slot(chart, { key: `chart-${name}`, class: "chart-slot" })),
      ),
      h("div", { class: "columns" }, partitions(flow), panel("In numbers", {}, numbers(flow, store.now()))),
      panel("Copiers", {}, flow.copiers.length ? copierTable(flow.copiers) : note("No copier is at work.")),
      flow.notes.length ? panel("In detail", {}, noteList(flow.notes)) : null,
      panel(
        "What has happened",
        { tools: h("a", { href: path("events") }, "All events") },
        eventList(this.#events().slice(-MOST_EVENTS).reverse(), { withFlow: false }),
      ),
    ];
  }
}

/** What somebody should look at, each with where to look. */
function troubles(flow) {
  const { failed, stalled, held, left_out: left, paused_topics: paused } = flow;
  const partitionsOf = (state) => `${path("flows", flow.flow, "partitions")}?state=${state}`;
  const pausedTopics = `${path("flows", flow.flow, "topics")}?state=paused`;
  const refused = path("flows", flow.flow, "quarantine");
  const slow = `${partitionsThat(held, "is", "are")} slower than possible: ${flow.held_reason}`;
  const still = `${partitionsThat(stalled, "does", "do")} not move: ${flow.stall_reason}`;
  const leftOut = `${format.counted(left, "record was", "records were")} left out, because the target refused them.`;
  return [
    flow.waiting_for ? ["attention", `It waits for ${flow.waiting_for}.`] : null,
    failed
      ? ["trouble", `${partitionsThat(failed, "has", "have")} stopped on an error.`, partitionsOf("failed")]
      : null,
    ...Object.entries(flow.quarantined).map(([partition, why]) => ["trouble", `${partition} is in quarantine: ${why}`]),
    stalled ? ["attention", still, partitionsOf("behind")] : null,
    held ? ["off", slow, partitionsOf("behind")] : null,
    paused.length ? ["off", `Paused topics: ${paused.join(", ")}`, pausedTopics] : null,
    left ? ["attention", leftOut, refused] : null,
  ].filter(Boolean);
}

function partitions(flow) {
  const all = h("a", { href: path("flows", flow.flow, "partitions") }, "All partitions");
  return panel("Partitions", { tools: all }, stateBars(flow));
}

function stateBars(flow) {
  const states = Object.entries(flow.states).sort(([, one], [, other]) => other - one);
  const counted = states.reduce((total, [, count]) => total + count, 0);
  const rest = flow.partitions - counted;
  if (rest > 0) states.push(["unowned", rest]);
  const total = Math.max(1, flow.partitions);
  return h(
    "ul",
    { class: "bars" },
    states.map(([state, count]) =>
      h(
        "li",
        { key: state },
        h("a", { href: `${path("flows", flow.flow, "partitions")}?state=${state}` }, state),
        bar(count / total, stateHealth(state), `${format.whole(count)} of ${format.whole(total)}`),
        h("span", { class: "number" }, format.whole(count)),
      ),
    ),
  );
}

function numbers(flow, now) {
  return facts([
    ["Topics", format.whole(flow.topics)],
    ["Partitions", format.whole(flow.partitions)],
    ["Rate", `${format.short(flow.records_per_second)} records/s, ${format.size(flow.bytes_per_second)}/s`],
    ["Copied since the start", `${format.whole(flow.records)} records, ${format.size(flow.bytes)}`],
    ["Last proof", proofText(flow.proof, now), flow.proof?.at_ms ? format.instant(flow.proof.at_ms) : null],
    ["Consumer groups", groupsText(flow)],
  ]);
}

function groupsText(flow) {
  if (flow.groups === null) return "no round has ended yet";
  const failing = flow.groups_failing ? `, ${format.whole(flow.groups_failing)} failing` : "";
  return `${format.whole(flow.groups)}${failing}`;
}

function copierTable(copiers) {
  return plainTable({
    label: "Copiers",
    word: "copier",
    rows: copiers,
    keyOf: (one) => one.copier,
    columns: [
      { head: "Copier", cell: (one) => one.copier },
      { head: "State", cell: (one) => one.state },
      { head: "Partitions", number: true, cell: (one) => format.whole(one.partitions) },
      { head: "Buffers", number: true, cell: (one) => format.size(one.buffer_bytes) },
      { head: "Node", title: (one) => one.node, cell: (one) => format.middle(one.node, 16) },
    ],
  });
}
