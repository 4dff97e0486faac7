/** The continuous proof of a flow: how far each partition is proven, and what differs. */

import * as api from "../api.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { confirm } from "../dialog.js";
import { facts, flowHead, loading, panel, proofText } from "../parts.js";
import { go, path, setQuery } from "../router.js";
import { Runs } from "../runs.js";
import { Table } from "../table.js";
import { filterField } from "./partitions.js";

const DELAY_MS = 200;

export class ProofPage {
  constructor(app, { flow }, query) {
    this.app = app;
    this.flow = flow;
    this.q = query.get("q") ?? "";
    this.proof = undefined;
    this.runs = new Runs(app, flow);
    this.table = new Table({
      label: `Proof of ${flow}`,
      word: "partition",
      none: "No partition is proven yet.",
      keyOf: (row) => `${row.topic}-${row.partition}`,
      open: (row) => go(path("flows", flow, "partitions", row.topic, String(row.partition))),
      load: async (offset, limit, signal) => {
        const found = await api.get(api.of(flow, "proofs", { q: this.q, offset, limit }), signal);
        this.proof = found.proof;
        app.update();
        return { total: found.total, rows: found.partitions };
      },
      columns: [
        {
          head: "Partition",
          grow: 3,
          narrow: "minmax(0, 1fr)",
          cell: (row) =>
            h(
              "a",
              { href: path("flows", flow, "partitions", row.topic, String(row.partition)), tabindex: "-1" },
              `${row.topic}-${row.partition}`,
            ),
        },
        { head: "Proven from", width: "8rem", number: true, cell: (row) => format.offset(row.proven_from) },
        { head: "Proven to", width: "8rem", number: true, narrow: "7rem", cell: (row) => format.offset(row.proven_to) },
        { head: "Not proven", width: "7rem", number: true, cell: (row) => format.whole(row.unproven) },
        {
          head: "Differ",
          width: "6rem",
          number: true,
          narrow: "4rem",
          cell: (row) => h("span", { class: row.differences ? "bad" : null }, format.whole(row.differences)),
        },
        {
          head: "Note",
          grow: 4,
          cell: (row) => h("span", { title: row.first || row.note || null }, row.first || row.note),
        },
      ],
    });
  }

  title() {
    return `Proof of ${this.flow}`;
  }

  start() {
    this.table.start();
    this.runs.start();
  }

  stop() {
    clearTimeout(this.timer);
    this.table.stop();
    this.runs.stop();
  }

  /** The last proof that a request has started, and the button that starts one. */
  #once() {
    const may = this.app.may("operate") && !this.runs.running;
    const why = this.app.may("operate") ? (this.runs.running ? "A command runs" : null) : "Needs the role operate";
    const prove = () =>
      confirm({
        title: `Prove the copy of ${this.flow} now?`,
        text: "It reads both clusters, record by record, from where the last proof ended. It changes nothing there.",
        verb: "Prove",
        run: () => this.runs.begin("verify"),
      });
    return [
      h(
        "div",
        { class: "actions", role: "group", "aria-label": "Proof" },
        h("button", { type: "button", class: "button", disabled: !may, title: why, on: { click: prove } }, "Prove now…"),
      ),
      this.runs.chosen?.kind === "verify" ? this.runs.view() : null,
    ];
  }

  view() {
    const { proof } = this;
    const head = flowHead(this.app, this.flow, "proof");
    if (proof === undefined)
      return [head, this.table.refused ? h("p", { class: "refused" }, this.table.refused) : loading()];
    if (proof === null) {
      return [
        head,
        panel(
          "Continuous proof is off",
          {},
          h(
            "p",
            {},
            "Spark can compare each copied record with its source, again and again: set ",
            h("code", {}, "raymirror.proof"),
            " in the configuration. Or prove it once.",
          ),
        ),
        this.#once(),
      ];
    }
    const filter = (value) => {
      this.q = value;
      setQuery({ q: value });
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.table.reset(), DELAY_MS);
    };
    return [
      head,
      this.#once(),
      panel(
        "Last round",
        {},
        facts([
          ["Ended", proofText(proof, this.app.store.now()), proof.at_ms ? format.instant(proof.at_ms) : null],
          ["Partitions with a proven part", format.whole(proof.partitions)],
          ["Records compared since the start", format.whole(proof.records)],
          ["Differences", proof.differences ? h("span", { class: "bad" }, format.whole(proof.differences)) : "none"],
        ]),
      ),
      h("div", { class: "filters" }, filterField(this.q, "Topic or partition", filter)),
      slot(this.table, { class: "table-slot", key: "table" }),
    ];
  }
}
