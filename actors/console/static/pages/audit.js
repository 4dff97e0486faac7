/** Who changed what on the copies, when and why. */

import { Page } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { textColumn } from "../parts/columns.js";
import { filterRow } from "../parts/filters.js";
import { note, pageHead, panel, time } from "../parts/parts.js";
import { Table } from "../parts/table.js";

const HEALTH = { done: "ok", failed: "trouble", left: "attention" };

export class AuditPage extends Page {
  constructor(app, _params, query) {
    super(app);
    this.kept = null; // where the trail is; empty: nowhere
    this.filters = this.addFilters(query, { about: "" });
    this.table = this.add(
      new Table({
        label: "Audit",
        word: "change",
        refreshMs: 0,
        none: "No change matches.",
        keyOf: (row) => `${row.run} ${row.at_ms} ${row.target} ${row.change} ${row.name}`,
        load: (offset, limit, signal) => this.#load({ ...this.filters.values, offset, limit }, signal),
        columns: COLUMNS,
      }),
    );
  }

  title() {
    return "Audit";
  }

  async #load(query, signal) {
    const found = await api.get(`/audit${api.search(query)}`, signal);
    this.kept = found.kept;
    this.app.update();
    return { total: found.total, rows: found.rows };
  }

  view() {
    return [
      pageHead("Audit", "Every change that raymirror made or tried on the copies: topics, configs, ACLs."),
      this.kept === ""
        ? panel(
            "No trail is kept",
            {},
            h(
              "p",
              {},
              "Set ",
              h("code", {}, "raymirror.storage"),
              " in the configuration, and each change is written there.",
            ),
          )
        : [
            filterRow(this.filters.field("about", "Topic, whole name")),
            this.table.view(),
            this.kept ? note(`Kept in ${this.kept}`) : null,
          ],
    ];
  }
}

const COLUMNS = [
  { head: "When", width: "11rem", cell: (row) => time(row.at_ms, format.instant) },
  textColumn("Who", (row) => row.who, { width: "7rem" }),
  textColumn("Copy", (row) => row.target || row.topic, {
    grow: 2,
    narrow: "minmax(0, 1fr)",
    title: (row) => `${row.flow} ${row.target}`,
  }),
  textColumn("Change", (row) => [row.change.replaceAll("_", " "), row.name].filter(Boolean).join(" "), {
    grow: 2,
    narrow: "minmax(0, 1fr)",
    title: (row) => `${row.change} ${row.name}`,
  }),
  textColumn("From, to", (row) => (row.before || row.after ? `${row.before || "–"} → ${row.after || "–"}` : ""), {
    grow: 2,
  }),
  {
    head: "Outcome",
    width: "6rem",
    narrow: "4.5rem",
    cell: (row) =>
      h("span", { class: `state ${HEALTH[row.outcome] ?? "info"}`, title: row.detail || null }, row.outcome),
  },
  textColumn("Why", (row) => row.detail || row.why, {
    grow: 3,
    title: (row) => [row.why, row.detail].filter(Boolean).join("; "),
  }),
];
