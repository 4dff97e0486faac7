/** The consumer groups of a flow: what the last round knows, and where each stands on both sides. */

import * as api from "../api.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { Moves } from "../moves.js";
import { facts, flowHead, loading, panel, refusal, tile, time } from "../parts.js";
import { path } from "../router.js";
import { Runs } from "../runs.js";

const REFRESH_MS = 5_000;
const MOST_ROWS = 200;
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

export class GroupsPage {
  constructor(app, { flow }) {
    this.app = app;
    this.flow = flow;
    this.found = null;
    this.refused = "";
    this.preview = null;
    this.asking = false;
    this.previewRefused = "";
    this.q = "";
    this.runs = new Runs(app, flow);
    this.moves = new Moves(this);
  }

  title() {
    return `Groups of ${this.flow}`;
  }

  start() {
    this.abort = new AbortController();
    this.#load();
    this.runs.start();
  }

  stop() {
    this.abort.abort();
    this.runs.stop();
    clearTimeout(this.timer);
  }

  async #load() {
    const { signal } = this.abort;
    try {
      if (!document.hidden) this.found = await api.get(api.of(this.flow, "groups"), signal);
      this.refused = "";
    } catch (error) {
      if (signal.aborted) return;
      this.refused = error.message;
    }
    this.app.update();
    this.timer = setTimeout(() => this.#load(), REFRESH_MS);
  }

  async #ask() {
    this.asking = true;
    this.app.update();
    try {
      this.preview = await api.get(api.of(this.flow, "failover-preview"), this.abort.signal);
      this.previewRefused = "";
    } catch (error) {
      this.previewRefused = error.message;
    }
    this.asking = false;
    this.app.update();
  }

  view() {
    const { found } = this;
    return [
      flowHead(this.app, this.flow, "groups"),
      this.refused ? refusal(this.refused) : null,
      found ? this.#round(found) : this.refused ? null : loading(),
      panel(
        "Where each group stands",
        {
          tools: h(
            "button",
            { type: "button", class: "button", disabled: this.asking, on: { click: () => this.#ask() } },
            this.asking ? "Asking both clusters…" : this.preview ? "Ask again" : "Ask both clusters",
          ),
        },
        this.#stands(),
      ),
      this.moves.view(),
    ];
  }

  #round(found) {
    const { report } = found;
    const ready = tile({
      question: "May the consumers move?",
      health: !report ? "off" : found.ready ? "ok" : "attention",
      answer: !report ? "Not known yet" : found.ready ? "Yes" : "Not all exactly",
      detail: !report
        ? "no round has ended yet"
        : found.ready
          ? "each offset is translated exactly"
          : found.why_not.join("; "),
      href: path("flows", this.flow, "failover"),
      link: "Compute what a move would cost",
    });
    if (!report) return [h("div", { class: "tiles" }, ready), h("p", { class: "soft" }, found.sentence)];
    return [
      h("div", { class: "tiles" }, ready),
      h(
        "div",
        { class: "columns" },
        panel(
          "Last round",
          {},
          facts([
            ["Ended", time(report.at_ms, format.instant)],
            ["Groups", format.whole(report.groups)],
            ["At work on the target", format.whole(report.active), "raymirror commits nothing for these"],
            ["Partitions ahead on the target", format.whole(report.ahead)],
            ["Checkpoints written", format.whole(report.checkpoints)],
            ["Offsets committed", format.whole(report.commits)],
            [
              "Checkpoint latency",
              `p50 ${format.millis(found.latency.p50_ms)}, p99 ${format.millis(found.latency.p99_ms)}`,
            ],
            [
              "Commits are",
              report.on_commit
                ? "read as they happen"
                : `polled${report.polled_because ? `: ${report.polled_because}` : ""}`,
            ],
            report.trouble ? ["Trouble", report.trouble] : null,
          ]),
        ),
        panel(
          "How offsets were translated",
          {},
          codes(report.how, HOW, "ok"),
          codes(report.without, WITHOUT, "attention"),
        ),
      ),
      named("Failing", report.failed, "trouble"),
      named("Not mirrored", report.not_synced, "off"),
      named("Brokers that do not answer about groups", report.away, "attention"),
    ];
  }

  #stands() {
    if (this.previewRefused) return refusal(this.previewRefused);
    if (!this.preview)
      return h("p", { class: "soft" }, "This reads every commit on both clusters. It changes nothing.");
    const stands = this.preview.preview.standing.stands.filter((one) =>
      `${one.group} ${one.topic}-${one.partition}`.includes(this.q),
    );
    const filter = (event) => {
      this.q = event.target.value;
      this.app.update();
    };
    return [
      h(
        "div",
        { class: "filters" },
        h(
          "label",
          { class: "filter" },
          h("span", {}, "Group or partition"),
          h("input", { class: "input", type: "search", value: this.q, "data-filter": "", on: { input: filter } }),
        ),
      ),
      standTable(stands),
      h(
        "p",
        { class: "table-count" },
        stands.length > MOST_ROWS
          ? `the first ${MOST_ROWS} of ${format.whole(stands.length)}`
          : format.counted(stands.length, "partition"),
        `, asked at ${format.clock(this.preview.at_ms)}`,
      ),
      named("Groups that could not be read", this.preview.preview.standing.failed, "trouble"),
    ];
  }
}

/** A table of commits on both sides; what a move would repeat or skip. */
export function standTable(stands) {
  if (!stands.length) return h("p", { class: "soft" }, "No group matches.");
  const heads = [
    ["Group"],
    ["Partition"],
    ["On the source", "number"],
    ["Is on the target", "number"],
    ["Committed there", "number"],
    ["A move would"],
  ];
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" },
    h(
      "table",
      { class: "plain-table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map(([head, kind]) => h("th", { scope: "col", class: kind }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        stands
          .slice(0, MOST_ROWS)
          .map((one) =>
            h(
              "tr",
              { key: `${one.group} ${one.topic} ${one.partition}` },
              h("th", { scope: "row" }, one.group),
              h("td", {}, `${one.topic}-${one.partition}`),
              h("td", { class: "number" }, format.offset(one.source_offset)),
              h("td", { class: "number" }, format.offset(one.target_offset)),
              h("td", { class: "number" }, format.offset(one.stored)),
              h("td", {}, move(one)),
            ),
          ),
      ),
    ),
  );
}

const NOT_COMMITTED = "not committed on the target";

/** Says what the consumers of a partition would read again if they moved. */
export function move(stand) {
  if (stand.why && stand.why !== NOT_COMMITTED)
    return h("span", { class: "bad" }, icon("attention"), ` not be exact: ${stand.why}`);
  if (stand.target_offset < 0) return "begin where the consumer's own setting says";
  const repeats = stand.stored < 0 ? null : stand.target_offset - stand.stored;
  if (repeats === null) return "be exact after a failover; now there is no commit on the target";
  if (repeats > 0) return `repeat ${format.counted(repeats, "record")} now, none after a failover`;
  if (repeats < 0) return `skip ${format.counted(-repeats, "record")}: the target is ahead`;
  return "repeat nothing";
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

/** Names with their reasons; nothing if there are none. */
export function named(title, reasons, health) {
  const rows = Object.entries(reasons);
  if (!rows.length) return null;
  return panel(
    title,
    {},
    h(
      "ul",
      { class: "troubles" },
      rows.map(([name, why]) =>
        h("li", { class: health }, icon(health), h("span", {}, h("b", {}, name), why ? ` ${why}` : "")),
      ),
    ),
  );
}
