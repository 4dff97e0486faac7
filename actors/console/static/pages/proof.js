/** The continuous proof of a flow: how far each partition is proven, and what differs. */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { Runs } from "../flow/runs.js";
import { proofText } from "../flow/words.js";
import { partitionRows, textColumn } from "../parts/columns.js";
import { confirm } from "../parts/dialog.js";
import { filterRow } from "../parts/filters.js";
import { actions, button, facts, loading, panel, refusal } from "../parts/parts.js";
import { Table } from "../parts/table.js";

export class ProofPage extends FlowTab {
  static tab = "proof";

  constructor(app, params, query) {
    super(app, params);
    this.proof = undefined; // null: there is none
    this.filters = this.addFilters(query, { q: "" });
    const { column, keyOf, open } = partitionRows(this.flow);
    this.table = this.add(
      new Table({
        label: `Proof of ${this.flow}`,
        word: "partition",
        none: "No partition is proven yet.",
        keyOf,
        open,
        load: (offset, limit, signal) => this.#load({ ...this.filters.values, offset, limit }, signal),
        columns: [column, ...COLUMNS],
      }),
    );
    this.runs = this.add(new Runs(app, this.flow));
  }

  async #load(query, signal) {
    const found = await api.get(api.of(this.flow, "proofs", query), signal);
    this.proof = found.proof;
    this.app.update();
    return { total: found.total, rows: found.partitions };
  }

  body() {
    const { proof } = this;
    if (proof === undefined) {
      const why = this.table.loader.refused;
      return why ? refusal(why) : loading();
    }
    return proof === null ? [offView(), this.#once()] : [this.#once(), this.#rounds(proof)];
  }

  #rounds(proof) {
    return [
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
      filterRow(this.filters.field("q", "Topic or partition")),
      this.table.view(),
    ];
  }

  /** The last proof that a request has started, and the button that starts one. */
  #once() {
    const prove = () =>
      confirm({
        title: `Prove the copy of ${this.flow} now?`,
        text: "It reads both clusters, record by record, from where the last proof ended. It changes nothing there.",
        verb: "Prove",
        run: () => this.runs.begin("verify"),
      });
    return [
      actions("Proof", button("Prove now…", prove, { why: this.runs.whyNot("operate") })),
      this.runs.chosen?.kind === "verify" ? this.runs.view() : null,
    ];
  }
}

function offView() {
  return panel(
    "Continuous proof is off",
    {},
    h(
      "p",
      {},
      "Spark can compare each copied record with its source, again and again: set ",
      h("code", {}, "raymirror.proof"),
      " in the configuration. Or prove it once.",
    ),
  );
}

const COLUMNS = [
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
  textColumn("Note", (row) => row.first || row.note, { grow: 4 }),
];
