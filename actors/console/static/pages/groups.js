/** The consumer groups of a flow: what the last round knows, and where each stands on both sides. */

import { FlowTab } from "./page.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";
import { Moves } from "../flow/moves.js";
import { Runs } from "../flow/runs.js";
import { standTable } from "../flow/stands.js";
import { filterField, filterRow } from "../parts/filters.js";
import { icon } from "../parts/icons.js";
import { facts, note, panel, reasonsPanel, tile, time } from "../parts/parts.js";

const REFRESH_MS = 5_000;
const HOW = {
  run: "the same record",
  refined: "the next record that was copied",
  end: "the end of the copy",
  near: "MM2's sync: the same record or one before it",
  clamped: "the start of the target's log",
};
const WITHOUT = {
  beyond: "not copied yet",
  before: "the offset map begins later",
  unread: "the offset map is being read",
  stale: "the offset map is not written up to there yet",
};

export class GroupsPage extends FlowTab {
  static tab = "groups";

  constructor(app, params) {
    super(app, params);
    this.q = "";
    this.rounds = this.addFlowLoader("groups", { everyMs: REFRESH_MS });
    this.preview = this.addFlowLoader("failover-preview", { atStart: false });
    this.runs = this.add(new Runs(app, this.flow));
    this.moves = new Moves(this);
  }

  body() {
    return [
      this.rounds.view((found) => roundView(found, this.flow)),
      this.rounds.isAnswered ? [this.#present(), this.moves.view()] : null,
    ];
  }

  #present() {
    const { preview } = this;
    return panel(
      "Where each group stands",
      { tools: preview.button("Ask both clusters", "Ask again") },
      preview.view((found) => this.#stands(found), {
        before: note("This reads every commit on both clusters. It changes nothing."),
      }),
    );
  }

  #stands({ preview, at_ms: atMs }) {
    const { stands, failed } = preview.standing;
    const shown = stands.filter((one) => `${one.group} ${one.topic}-${one.partition}`.includes(this.q));
    const filter = (value) => {
      this.q = value;
      this.app.update();
    };
    return [
      filterRow(filterField(this.q, "Group or partition", filter)),
      standTable(shown),
      h("p", { class: "table-count" }, `${format.counted(shown.length, "partition")}, asked at ${format.clock(atMs)}`),
      reasonsPanel("Groups that could not be read", Object.entries(failed), "trouble"),
    ];
  }
}

/** What the last round of the group sync has done; nothing but a sentence before the first has ended. */
function roundView(found, flow) {
  const { report } = found;
  if (!report) return [h("div", { class: "tiles" }, readyTile(found, flow)), note(found.sentence)];
  return [
    h("div", { class: "tiles" }, readyTile(found, flow)),
    h(
      "div",
      { class: "columns" },
      panel("Last round", {}, roundFacts(report, found.latency)),
      panel(
        "How offsets were translated",
        {},
        codes(report.how, HOW, "ok"),
        codes(report.without, WITHOUT, "attention"),
      ),
    ),
    reasonsPanel("Failing", Object.entries(report.failed), "trouble"),
    reasonsPanel("Not mirrored", Object.entries(report.not_synced), "off"),
    reasonsPanel("Brokers that do not answer about groups", Object.entries(report.away), "attention"),
  ];
}

function readyTile({ report, ready, why_not: whyNot }, flow) {
  const [health, answer, detail] = !report
    ? ["off", "Not known yet", "no round has ended yet"]
    : ready
      ? ["ok", "Yes", "each offset is translated exactly"]
      : ["attention", "Not all exactly", whyNot.join("; ")];
  return tile({
    question: "May the consumers move?",
    health,
    answer,
    detail,
    href: path("flows", flow, "failover"),
    link: "Compute what a move would cost",
  });
}

function roundFacts(report, latency) {
  const polled = report.polled_because ? `polled: ${report.polled_because}` : "polled";
  return facts([
    ["Ended", time(report.at_ms, format.instant)],
    ["Groups", format.whole(report.groups)],
    ["At work on the target", format.whole(report.active), "raymirror commits nothing for these"],
    ["Partitions ahead on the target", format.whole(report.ahead)],
    ["Checkpoints written", format.whole(report.checkpoints)],
    ["Offsets committed", format.whole(report.commits)],
    ["Checkpoint latency", `p50 ${format.millis(latency.p50_ms)}, p99 ${format.millis(latency.p99_ms)}`],
    ["Commits are", report.on_commit ? "read as they happen" : polled],
    report.trouble ? ["Trouble", report.trouble] : null,
  ]);
}

function codes(counts, words, health) {
  const rows = Object.entries(counts);
  if (!rows.length) return null;
  return h(
    "ul",
    { class: "codes" },
    rows.map(([code, count]) =>
      h(
        "li",
        { class: health },
        icon(health),
        h("span", { class: "grow" }, words[code] ?? code),
        h("b", {}, format.whole(count)),
      ),
    ),
  );
}
