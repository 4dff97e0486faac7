/**
 * Records that the target refused and that were left out of the copy: which, why, what they contain, and what becomes of
 * them. A replay and a drop are commands of their own, which outlive this server.
 */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { Runs } from "../flow/runs.js";
import { textColumn } from "../parts/columns.js";
import { confirm } from "../parts/dialog.js";
import { chip, filterRow } from "../parts/filters.js";
import { actions, badge, button, facts, loading, note, panel, subHead, time } from "../parts/parts.js";
import { Table } from "../parts/table.js";

const HEALTH = {
  held: "attention",
  skipped: "trouble",
  pending: "info",
  unsure: "trouble",
  copied: "ok",
  replayed: "ok",
};
const OPEN = ["held", "skipped", "pending", "unsure"];
const MOST_TEXT = 20_000;

export class QuarantinePage extends FlowTab {
  static tab = "quarantine";

  constructor(app, params) {
    super(app, params);
    this.all = false;
    this.states = {};
    this.chosen = null; // a row of the table
    this.begun = ""; // the run that was begun here, until the table shows what it has changed
    this.table = this.add(this.#makeTable());
    this.contents = this.addLoader((signal) => this.#loadContents(signal), { atStart: false });
    this.runs = this.add(new Runs(app, this.flow));
  }

  #makeTable() {
    return new Table({
      label: `Records of ${this.flow} that the target refused`,
      word: "record",
      none: "The target has refused no record, or all of them are done with.",
      refreshMs: 0,
      keyOf: (row) => row.record,
      open: (row) => this.#open(row),
      load: (offset, limit, signal) => this.#load({ all: this.all || "", offset, limit }, signal),
      columns: [
        textColumn("Record", (row) => row.record, { grow: 3, narrow: "minmax(0, 1fr)" }),
        { head: "State", width: "8rem", narrow: "7rem", cell: stateOf },
        { head: "Bytes", width: "6rem", number: true, cell: (row) => format.size(bytesOf(row)) },
        { head: "Left out", width: "11rem", cell: (row) => time(row.left_out_at_ms, format.instant) },
        textColumn("The target said", (row) => row.error, { grow: 5 }),
      ],
    });
  }

  async #load(query, signal) {
    const found = await api.get(api.of(this.flow, "quarantine", query), signal);
    this.states = found.states;
    this.app.update();
    return { total: found.total, rows: found.records };
  }

  async #loadContents(signal) {
    const query = { record: this.chosen.record };
    return (await api.get(api.of(this.flow, "quarantine/contents", query), signal)).records[0];
  }

  /** Shows a record; what it contains needs a role, because no other page shows contents. */
  #open(row) {
    this.chosen = row;
    if (this.app.may("operate")) this.contents.askAfresh();
    this.app.update();
    requestAnimationFrame(() => document.querySelector(".refused-record")?.scrollIntoView({ block: "nearest" }));
  }

  body() {
    this.#follow();
    const hasOpen = OPEN.some((state) => this.states[state]);
    return [
      this.runs.view(),
      subHead(
        "Records that the target refused",
        "Quarantine",
        button("Read again", () => this.#again()),
        this.#button("play", "Replay all…", () => this.#replay(null), !this.states.held),
        this.#button("stop", "Drop all…", () => this.#drop(null), !hasOpen),
      ),
      note(
        "They are left out of the copy, and the flow goes on without them. A replay appends a record to its copy, exactly " +
          "once; a drop removes its contents and keeps its name.",
      ),
      filterRow(
        chip("Also those that are done with", this.all, () => ((this.all = !this.all), this.#again())),
        Object.entries(this.states).map(([state, count]) =>
          h("span", { class: "soft", key: state }, `${format.whole(count)} ${state}`),
        ),
      ),
      this.table.view(),
      this.chosen ? this.#record() : null,
    ];
  }

  /** Reads again what a replay or a drop has changed, once it has ended. */
  #follow() {
    const run = this.runs.chosen;
    if (run?.run !== this.begun || run.ended_ms === null) return;
    this.begun = "";
    this.#again();
  }

  async #begin(route, row) {
    const run = await this.runs.begin(route, row ? { records: [row.record] } : { all: true });
    this.begun = run.run;
  }

  #again() {
    this.chosen = null;
    this.table.reset();
    this.app.update();
  }

  #record() {
    const row = this.contents.found ?? this.chosen;
    const isOpen = OPEN.includes(row.state);
    return panel(
      row.record,
      {
        class: "refused-record",
        tools: actions(
          `What becomes of ${row.record}`,
          this.#button("play", "Replay…", () => this.#replay(row), !row.held || !isOpen),
          this.#button("stop", "Drop…", () => this.#drop(row), !isOpen),
        ),
      },
      facts([
        ["State", stateOf(row)],
        ["The target said", `${row.error} (error ${row.error_code})`],
        ["Its copy", `${row.target_topic}-${row.partition}${row.target_offset >= 0 ? `@${row.target_offset}` : ""}`],
        ["Timestamp", time(row.timestamp_ms, format.instant)],
        ["Left out", time(row.left_out_at_ms, format.instant)],
        ["Key, value, headers", `${sizeOf(row.key_bytes)}, ${sizeOf(row.value_bytes)}, ${format.whole(row.headers)}`],
      ]),
      this.app.may("operate")
        ? this.contents.view(contentsView, { waiting: loading("Reading the record from the target…") })
        : note("To see what the record contains you need the role operate."),
    );
  }

  #replay(row) {
    return confirm({
      title: row ? `Replay ${row.record}?` : `Replay all held records of ${this.flow}?`,
      text: [
        "It is appended at the end of its copy now, behind what was copied since: consumers get it late, and out of order.",
        "Make sure that the target takes it now; else it stays where it is. A record is never replayed twice.",
      ],
      verb: "Replay",
      word: this.flow,
      run: () => this.#begin("quarantine/replay", row),
    });
  }

  #drop(row) {
    return confirm({
      title: row ? `Drop ${row.record}?` : `Drop all open records of ${this.flow}?`,
      text: [
        "Its contents are removed from the target for good; only its name stays.",
        "The copy will never have it, and a proof counts it as left out.",
      ],
      verb: "Drop",
      word: this.flow,
      danger: true,
      run: () => this.#begin("quarantine/drop", row),
    });
  }

  #button(sign, text, run, isOff) {
    return button(text, run, { sign, isOff, why: this.runs.whyNot("admin") });
  }
}

function stateOf(row) {
  return badge(HEALTH[row.state] ?? "off", row.state);
}

function bytesOf(row) {
  return (row.key_bytes ?? 0) + (row.value_bytes ?? 0);
}

function sizeOf(count) {
  return count === null ? "null" : format.size(count);
}

function contentsView({ contents }) {
  if (!contents) return note("Nothing holds its contents but the source.");
  return [
    h("h3", {}, "Key"),
    bytesView(contents.key, "Key"),
    h("h3", {}, "Headers"),
    contents.headers.length
      ? facts(contents.headers.map((one) => [textOf(one.name), textOf(one.value)]))
      : note("none"),
    h("h3", {}, "Value"),
    bytesView(contents.value, "Value"),
  ];
}

function textOf(data) {
  if (data === null) return "null";
  return data.text ?? `base64 ${data.base64}`;
}

/** Key or value as text that scrolls by itself; no part of it is read as markup. */
function bytesView(data, label) {
  const text = textOf(data);
  const isCut = text.length > MOST_TEXT;
  return [
    h(
      "pre",
      { class: "said", tabindex: "0", role: "region", "aria-label": label },
      isCut ? text.slice(0, MOST_TEXT) : text || "empty",
    ),
    isCut ? note(`The first ${format.whole(MOST_TEXT)} characters; raymirror quarantine show prints all.`) : null,
  ];
}
