/** One flow now: the three answers, how far behind it is over time, what stands still, and who copies. */

import { Chart } from "../chart.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { bar, eventList, facts, flowHead, panel, proofText, stateHealth } from "../parts.js";
import { path } from "../router.js";
import { failover, loss, missed, whole } from "./overview.js";

const MOST_EVENTS = 12;

export class FlowPage {
  constructor(app, { flow }) {
    this.app = app;
    this.flow = flow;
    this.charts = {
      lag: new Chart({
        title: "Behind",
        note: "age of the oldest record that is not copied",
        unit: "seconds",
        lines: [{ name: "behind", column: "lag_seconds" }],
      }),
      records: new Chart({
        title: "Records not copied",
        unit: "count",
        lines: [{ name: "records", column: "lag_records" }],
      }),
      count: new Chart({
        title: "Records copied",
        unit: "rate",
        lines: [{ name: "records", column: "records_per_second" }],
      }),
      rate: new Chart({
        title: "Throughput",
        note: "on the wire",
        unit: "bytes",
        lines: [{ name: "bytes", column: "bytes_per_second" }],
      }),
      copied: new Chart({
        title: "From timestamp to target",
        unit: "millis",
        lines: [
          { name: "p50", column: "copied_p50_ms" },
          { name: "p99", column: "copied_p99_ms" },
        ],
      }),
      append: new Chart({
        title: "Append latency",
        note: "one produce request",
        unit: "millis",
        lines: [
          { name: "p50", column: "append_p50_ms" },
          { name: "p99", column: "append_p99_ms" },
        ],
      }),
    };
  }

  title() {
    return this.flow;
  }

  start() {
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
    const flow = store.flow(this.flow);
    const now = store.now();
    for (const [name, chart] of Object.entries(this.charts)) {
      chart.update(series, { now, marks, objective: name === "lag" ? (flow?.rpo_objective_seconds ?? null) : null });
    }
  }

  view() {
    const { store } = this.app;
    const flow = store.flow(this.flow);
    const head = flowHead(this.app, this.flow, "");
    if (!flow) return head;
    const { lag, records, count, rate, copied, append } = this.charts;
    return [
      head,
      troubles(flow),
      h(
        "div",
        { class: "tiles" },
        whole([flow], store.now()),
        loss(flow, missed([flow]), flow.left_out),
        failover([flow], store),
      ),
      h(
        "div",
        { class: "charts" },
        [lag, records, count, rate, copied, append].map((chart, at) =>
          slot(chart, { key: `chart-${at}`, class: "chart-slot" }),
        ),
      ),
      h(
        "div",
        { class: "columns" },
        panel(
          "Partitions",
          { tools: h("a", { href: path("flows", flow.flow, "partitions") }, "All partitions") },
          stateBars(flow),
        ),
        panel("In numbers", {}, numbers(flow, store.now())),
      ),
      panel("Copiers", {}, copiers(flow)),
      flow.notes.length
        ? panel(
            "In detail",
            {},
            h(
              "ul",
              { class: "notes" },
              flow.notes.map((note) => h("li", {}, note)),
            ),
          )
        : null,
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
  const list = (filter) => `${path("flows", flow.flow, "partitions")}?state=${filter}`;
  const rows = [
    flow.waiting_for ? ["attention", `It waits for ${flow.waiting_for}.`] : null,
    flow.failed
      ? [
          "trouble",
          `${format.counted(flow.failed, "partition has", "partitions have")} stopped on an error.`,
          list("failed"),
        ]
      : null,
    ...Object.entries(flow.quarantined).map(([partition, why]) => ["trouble", `${partition} is in quarantine: ${why}`]),
    flow.stalled
      ? [
          "attention",
          `${format.counted(flow.stalled, "partition does", "partitions do")} not move: ${flow.stall_reason}`,
          list("behind"),
        ]
      : null,
    flow.held
      ? [
          "off",
          `${format.counted(flow.held, "partition is", "partitions are")} slower than possible: ${flow.held_reason}`,
          list("behind"),
        ]
      : null,
    flow.paused_topics.length
      ? ["off", `Paused topics: ${flow.paused_topics.join(", ")}`, `${path("flows", flow.flow, "topics")}?state=paused`]
      : null,
    flow.left_out
      ? [
          "attention",
          `${format.counted(flow.left_out, "record was", "records were")} left out, because the target refused them.`,
        ]
      : null,
  ].filter(Boolean);
  if (!rows.length) return null;
  return h(
    "ul",
    { class: "troubles" },
    rows.map(([health, text, href]) =>
      h("li", { class: health }, icon(health), h("span", {}, text), href ? h("a", { href }, "Show") : null),
    ),
  );
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
    [
      "Consumer groups",
      flow.groups === null
        ? "no round has ended yet"
        : flow.groups_failing
          ? `${format.whole(flow.groups)}, ${format.whole(flow.groups_failing)} failing`
          : format.whole(flow.groups),
    ],
  ]);
}

function copiers(flow) {
  if (!flow.copiers.length) return h("p", { class: "soft" }, "No copier is at work.");
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Copiers" },
    h(
      "table",
      { class: "plain-table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          [["Copier"], ["State"], ["Partitions", "number"], ["Buffers", "number"], ["Node"]].map(([head, kind]) =>
            h("th", { scope: "col", class: kind }, head),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        flow.copiers.map((one) =>
          h(
            "tr",
            { key: one.copier },
            h("th", { scope: "row" }, one.copier),
            h("td", {}, one.state),
            h("td", { class: "number" }, format.whole(one.partitions)),
            h("td", { class: "number" }, format.size(one.buffer_bytes)),
            h("td", { title: one.node }, format.middle(one.node, 16)),
          ),
        ),
      ),
    ),
  );
}
