/** The first page: is it whole, how much would be lost now, may I fail over; then each flow, and what has happened. */

import { Page } from "./page.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";
import { answerTiles } from "../flow/answers.js";
import { lossText, proofText } from "../flow/words.js";
import { sparkline } from "../parts/chart.js";
import { icon } from "../parts/icons.js";
import { clusterMap } from "../parts/map.js";
import { eventList, flowLink, loading, note, notice, panel, stateBadge } from "../parts/parts.js";
import { plainTable } from "../parts/plaintable.js";

const MOST_EVENTS = 8;

export class OverviewPage extends Page {
  title() {
    return "Overview";
  }

  view() {
    const { store } = this.app;
    const { mirror } = store;
    if (!mirror) return [h("h1", { class: "verdict" }, "Overview"), loading()];
    const flows = [...store.flows.values()];
    return [
      verdict(mirror, flows),
      mirror.unremembered.length
        ? notice(
            "attention",
            `Not stored on the target yet: what was last wanted of ${mirror.unremembered.join(", ")}.`,
          )
        : null,
      answerTiles(mirror, flows, store),
      panel("Clusters and flows", {}, clusterMap(store.clusters, flows)),
      panel("Flows", {}, flows.length ? flowTable(flows, store) : note("The configuration has no flow.")),
      panel(
        "What has happened",
        { tools: h("a", { href: path("events") }, "All events") },
        eventList(store.events.slice(-MOST_EVENTS).reverse()),
      ),
    ];
  }
}

function flowTable(flows, store) {
  return plainTable({
    label: "Flows",
    kind: "flows",
    word: "flow",
    rows: flows,
    keyOf: (flow) => flow.flow,
    columns: [
      { head: "Flow", cell: (flow) => flowLink(flow.flow) },
      { head: "State", cell: stateBadge },
      { head: "Loss now", number: true, cell: (flow) => lossText(flow.rpo) },
      { head: "Behind", number: true, cell: (flow) => format.orNotKnown(flow.rpo.seconds, format.duration) },
      { head: "Worst", number: true, cell: (flow) => format.duration(flow.worst_rpo.seconds) },
      { head: "Rate", number: true, cell: (flow) => `${format.short(flow.records_per_second)}/s` },
      { head: "Proof", cell: (flow) => (flow.proof ? proofText(flow.proof, store.now()) : "off") },
      {
        head: "Lag, 15 min",
        kind: "spark-cell",
        cell: (flow) => sparkline(store.seriesOf(flow.flow), "lag_seconds", `lag of ${flow.flow}`),
      },
    ],
  });
}

/** The health of the mirror in one sentence; what more there is to say stands below it. */
function verdict(mirror, flows) {
  const end = mirror.sentence.search(/\.\s/) + 1 || mirror.sentence.length;
  const rest = mirror.sentence.slice(end).trim();
  return [
    h("h1", { class: `verdict ${mirror.health}` }, icon(mirror.health), h("span", {}, mirror.sentence.slice(0, end))),
    rest ? h("p", { class: "verdict-more" }, rest) : null,
    details(flows),
  ];
}

/** What each flow that needs a look says about itself, behind one line. */
function details(flows) {
  const lines = flows
    .filter((flow) => flow.health === "trouble" || flow.health === "attention")
    .flatMap((flow) =>
      [flow.waiting_for ? `waiting for ${flow.waiting_for}` : "", ...flow.notes]
        .filter(Boolean)
        .map((one) => [format.flow(flow.flow), one]),
    );
  if (!lines.length) return null;
  return h(
    "details",
    { class: "verdict-details", key: "verdict-details" },
    h("summary", {}, "Details"),
    h(
      "ul",
      {},
      lines.map(([flow, one]) => h("li", {}, h("b", {}, flow), ` ${one}`)),
    ),
  );
}
