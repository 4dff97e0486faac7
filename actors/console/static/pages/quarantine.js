/**
 * Records that the target refused and that were left out of the copy: which, why, what they contain, and what becomes of
 * them. A replay and a drop are commands of their own, which outlive this server.
 */

import * as api from "../api.js";
import { confirm } from "../dialog.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { badge, facts, flowHead, loading, panel, refusal, time } from "../parts.js";
import { Runs } from "../runs.js";
import { Table } from "../table.js";

const HEALTH = { held: "attention", skipped: "trouble", pending: "info", unsure: "trouble", copied: "ok", replayed: "ok" };
const OPEN = ["held", "skipped", "pending", "unsure"];
const MOST_TEXT = 20_000;

export class QuarantinePage {
  constructor(app, { flow }) {
    this.app = app;
    this.flow = flow;
    this.all = false;
    this.states = {};
    this.chosen = null; // a row of the table
    this.shown = null; // the same with its contents
    this.refused = "";
    this.begun = ""; // the run that was begun here, until the table shows what it has changed
    this.runs = new Runs(app, flow);
    this.table = new Table({
      label: `Records of ${flow} that the target refused`,
      word: "record",
      none: "The target has refused no record, or all of them are done with.",
      refreshMs: 0,
      keyOf: (row) => row.record,
      open: (row) => this.#open(row),
      load: async (offset, limit, signal) => {
        const found = await api.get(api.of(flow, "quarantine", { all: this.all || "", offset, limit }), signal);
        this.states = found.states;
        app.update();
        return { total: found.total, rows: found.records };
      },
      columns: [
        { head: "Record", grow: 3, narrow: "minmax(0, 1fr)", cell: (row) => h("span", { title: row.record }, row.record) },
        { head: "State", width: "8rem", narrow: "7rem", cell: (row) => badge(HEALTH[row.state] ?? "off", row.state) },
        { head: "Bytes", width: "6rem", number: true, cell: (row) => format.size(bytesOf(row)) },
        { head: "Left out", width: "11rem", cell: (row) => time(row.left_out_at_ms, format.instant) },
        { head: "The target said", grow: 5, cell: (row) => h("span", { title: row.error }, row.error) },
      ],
    });
  }

  title() {
    return `Quarantine of ${this.flow}`;
  }

  start() {
    this.abort = new AbortController();
    this.table.start();
    this.runs.start();
  }

  stop() {
    this.abort.abort();
    this.table.stop();
    this.runs.stop();
  }

  /** Shows a record; what it contains needs a role, because no other page shows contents. */
  async #open(row) {
    this.chosen = row;
    this.shown = null;
    this.refused = "";
    this.app.update();
    if (!this.app.may("operate")) return;
    try {
      const url = api.of(this.flow, "quarantine/contents", { record: row.record });
      const found = await api.get(url, this.abort.signal);
      if (this.chosen === row) this.shown = found.records[0];
    } catch (error) {
      if (this.abort.signal.aborted || this.chosen !== row) return;
      this.refused = error.message;
    }
    this.app.update();
  }

  view() {
    this.#follow();
    const open = OPEN.reduce((sum, state) => sum + (this.states[state] ?? 0), 0);
    return [
      flowHead(this.app, this.flow, "quarantine"),
      this.runs.view(),
      h(
        "div",
        { class: "sub-head" },
        h("h2", {}, "Records that the target refused"),
        h("span", { class: "grow" }),
        h(
          "div",
          { class: "actions", role: "group", "aria-label": "Quarantine" },
          h("button", { type: "button", class: "button", on: { click: () => this.#again() } }, "Read again"),
          this.#button("play", "Replay all…", () => this.#replay(null), !this.states.held),
          this.#button("stop", "Drop all…", () => this.#drop(null), !open),
        ),
      ),
      h(
        "p",
        { class: "soft" },
        "They are left out of the copy, and the flow goes on without them. A replay appends a record to its copy, exactly once; " +
          "a drop removes its contents and keeps its name.",
      ),
      h(
        "div",
        { class: "filters" },
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-pressed": String(this.all),
            on: { click: () => ((this.all = !this.all), this.#again()) },
          },
          "Also those that are done with",
        ),
        Object.entries(this.states).map(([state, count]) =>
          h("span", { class: "soft", key: state }, `${format.whole(count)} ${state}`),
        ),
      ),
      slot(this.table, { class: "table-slot", key: "table" }),
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
    const row = this.shown ?? this.chosen;
    const isOpen = OPEN.includes(row.state);
    return panel(
      row.record,
      {
        class: "refused-record",
        tools: h(
          "div",
          { class: "actions", role: "group", "aria-label": `What becomes of ${row.record}` },
          this.#button("play", "Replay…", () => this.#replay(row), !row.held || !isOpen),
          this.#button("stop", "Drop…", () => this.#drop(row), !isOpen),
        ),
      },
      facts([
        ["State", badge(HEALTH[row.state] ?? "off", row.state)],
        ["The target said", `${row.error} (error ${row.error_code})`],
        ["Its copy", `${row.target_topic}-${row.partition}${row.target_offset >= 0 ? `@${row.target_offset}` : ""}`],
        ["Timestamp", time(row.timestamp_ms, format.instant)],
        ["Left out", time(row.left_out_at_ms, format.instant)],
        ["Key, value, headers", `${sizeOf(row.key_bytes)}, ${sizeOf(row.value_bytes)}, ${format.whole(row.headers)}`],
      ]),
      this.#contents(),
    );
  }

  #contents() {
    if (!this.app.may("operate"))
      return h("p", { class: "soft" }, "To see what the record contains you need the role operate.");
    if (this.refused) return refusal(this.refused);
    if (!this.shown) return loading("Reading the record from the target…");
    const { contents } = this.shown;
    if (!contents) return h("p", { class: "soft" }, "Nothing holds its contents but the source.");
    return [
      h("h3", {}, "Key"),
      bytes(contents.key, "Key"),
      h("h3", {}, "Headers"),
      contents.headers.length
        ? h(
            "dl",
            { class: "facts" },
            contents.headers.map((one, at) =>
              h("div", { key: String(at) }, h("dt", {}, text(one.name)), h("dd", {}, text(one.value))),
            ),
          )
        : h("p", { class: "soft" }, "none"),
      h("h3", {}, "Value"),
      bytes(contents.value, "Value"),
    ];
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

  #button(sign, label, run, isOff) {
    const may = this.app.may("admin");
    const why = may ? (this.runs.running ? "A command runs" : null) : "Needs the role admin";
    return h(
      "button",
      {
        type: "button",
        class: "button",
        disabled: !may || Boolean(this.runs.running) || isOff,
        title: why,
        on: { click: run },
      },
      icon(sign),
      h("span", {}, label),
    );
  }
}

function bytesOf(row) {
  return (row.key_bytes ?? 0) + (row.value_bytes ?? 0);
}

function sizeOf(count) {
  return count === null ? "null" : format.size(count);
}

function text(data) {
  if (data === null) return "null";
  return data.text ?? `base64 ${data.base64}`;
}

/** Key or value as text that scrolls by itself; no part of it is read as markup. */
function bytes(data, label) {
  const whole = text(data);
  const isCut = whole.length > MOST_TEXT;
  return [
    h(
      "pre",
      { class: "said", tabindex: "0", role: "region", "aria-label": label },
      isCut ? whole.slice(0, MOST_TEXT) : whole || "empty",
    ),
    isCut
      ? h("p", { class: "soft" }, `The first ${format.whole(MOST_TEXT)} characters; raymirror quarantine show prints all.`)
      : null,
  ];
}
