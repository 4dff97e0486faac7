/** Who changed what on the copies, when and why. */

import * as api from "../api.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { panel, time } from "../parts.js";
import { setQuery } from "../router.js";
import { Table } from "../table.js";
import { filterField } from "./partitions.js";

const DELAY_MS = 300;
const OUTCOMES = { done: "ok", failed: "trouble", left: "attention" };

export class AuditPage {
  constructor(app, _params, query) {
    this.app = app;
    this.about = query.get("about") ?? "";
    this.kept = null;
    this.table = new Table({
      label: "Audit",
      word: "change",
      refreshMs: 0,
      none: "No change matches.",
      keyOf: (row) => `${row.run} ${row.at_ms} ${row.target} ${row.change} ${row.name}`,
      load: async (offset, limit, signal) => {
        const found = await api.get(`/audit${api.search({ about: this.about, offset, limit })}`, signal);
        this.kept = found.kept;
        app.update();
        return { total: found.total, rows: found.rows };
      },
      columns: [
        { head: "When", width: "11rem", cell: (row) => time(row.at_ms, format.instant) },
        { head: "Who", width: "7rem", cell: (row) => h("span", { title: row.who }, row.who) },
        {
          head: "Copy",
          grow: 2,
          narrow: "minmax(0, 1fr)",
          cell: (row) => h("span", { title: `${row.flow} ${row.target}` }, row.target || row.topic),
        },
        {
          head: "Change",
          grow: 2,
          narrow: "minmax(0, 1fr)",
          cell: (row) =>
            h(
              "span",
              { title: `${row.change} ${row.name}` },
              [row.change.replaceAll("_", " "), row.name].filter(Boolean).join(" "),
            ),
        },
        {
          head: "From, to",
          grow: 2,
          cell: (row) =>
            h(
              "span",
              { title: `${row.before} → ${row.after}` },
              row.before || row.after ? `${row.before || "–"} → ${row.after || "–"}` : "",
            ),
        },
        {
          head: "Outcome",
          width: "6rem",
          narrow: "4.5rem",
          cell: (row) =>
            h("span", { class: `state ${OUTCOMES[row.outcome] ?? "info"}`, title: row.detail || null }, row.outcome),
        },
        {
          head: "Why",
          grow: 3,
          cell: (row) => h("span", { title: [row.why, row.detail].filter(Boolean).join("; ") }, row.detail || row.why),
        },
      ],
    });
  }

  title() {
    return "Audit";
  }

  start() {
    this.table.start();
  }

  stop() {
    clearTimeout(this.timer);
    this.table.stop();
  }

  view() {
    const head = [
      h("div", { class: "page-head" }, h("h1", {}, "Audit")),
      h("p", { class: "sentence" }, "Every change that raymirror made or tried on the copies: topics, configs, ACLs."),
    ];
    if (this.kept === "")
      return [
        head,
        panel(
          "No trail is kept",
          {},
          h(
            "p",
            {},
            "Set ",
            h("code", {}, "raymirror.storage"),
            " in the configuration, and each change is written there.",
          ),
        ),
      ];
    const filter = (value) => {
      this.about = value;
      setQuery({ about: value });
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.table.reset(), DELAY_MS);
    };
    return [
      head,
      h("div", { class: "filters" }, filterField(this.about, "Topic, whole name", filter)),
      slot(this.table, { class: "table-slot", key: "table" }),
      this.kept ? h("p", { class: "soft" }, `Kept in ${this.kept}`) : null,
    ];
  }
}
