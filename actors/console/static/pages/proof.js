/** The continuous proof of a flow: how far each partition is proven, and what differs. */

import * as api from "../api.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { facts, flowHead, loading, panel, proofText } from "../parts.js";
import { go, path, setQuery } from "../router.js";
import { Table } from "../table.js";
import { filterField } from "./partitions.js";

const DELAY_MS = 200;

export class ProofPage {
  constructor(app, { flow }, query) {
    this.app = app;
    this.flow = flow;
    this.q = query.get("q") ?? "";
    this.proof = undefined;
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
  }

  stop() {
    clearTimeout(this.timer);
    this.table.stop();
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
            " in the configuration. Or prove it once: ",
            h("code", {}, "raymirror verify"),
          ),
        ),
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
