/** The filters and the table of the partitions of a flow, or of one topic. */

import { notDiscovered } from "./words.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { behindColumn, partitionRows, recordsColumn, stateColumn, textColumn } from "../parts/columns.js";
import { filterRow, Filters, ORDERS } from "../parts/filters.js";
import { Table } from "../parts/table.js";

export class PartitionList {
  /** `topic`: only those of one topic; `changed()`: to be drawn again. */
  constructor(flow, { topic = "", query = new URLSearchParams(), changed }) {
    Object.assign(this, { flow, topic, changed });
    this.states = {};
    this.filters = new Filters(
      query,
      { q: "", state: "", sort: "seconds" },
      { changed, settled: () => this.table.reset() },
    );
    this.table = this.#makeTable();
  }

  #makeTable() {
    const { column, keyOf, open } = partitionRows(this.flow);
    return new Table({
      label: `Partitions of ${this.topic || this.flow}`,
      word: "partition",
      keyOf,
      open,
      load: (offset, limit, signal) => this.#load({ topic: this.topic, ...this.filters.values, offset, limit }, signal),
      columns: [
        column,
        stateColumn((row) => row.state),
        behindColumn(lastHeard),
        recordsColumn,
        { head: "Bytes", width: "6.5rem", number: true, cell: (row) => format.size(row.lag_bytes) },
        textColumn("Why", (row) => row.why, { grow: 4 }),
      ],
    });
  }

  async #load(query, signal) {
    const found = await api.get(api.of(this.flow, "partitions", query), signal);
    this.states = found.states;
    this.changed();
    return { total: found.total, rows: found.partitions, none: notDiscovered(found, "The partitions are") };
  }

  start() {
    this.table.start();
  }

  stop() {
    this.filters.stop();
    this.table.stop();
  }

  view() {
    const { filters } = this;
    return [
      filterRow(
        filters.field("q", this.topic ? "Partition" : "Topic or partition"),
        filters.choice("sort", "Order", ORDERS),
        filters.chips("state", "State", this.#states()),
      ),
      this.table.view(),
    ];
  }

  /** The states to choose from: those that partitions have, and the one that is chosen. */
  #states() {
    const { state } = this.filters.values;
    const total = Object.values(this.states).reduce((sum, count) => sum + count, 0);
    const states = Object.entries(this.states).sort();
    if (state && state !== "behind" && !(state in this.states)) states.push([state, 0]);
    return [["", "all", total], ["behind", "behind"], ...states.map(([one, count]) => [one, one, count])];
  }
}

/** What a row says whose lag is not known: a tooltip has the last one that was. */
function lastHeard(row) {
  const title =
    row.heard_seconds_ago === null
      ? null
      : `as of ${format.age(row.heard_seconds_ago)} ago: ${format.age(row.heard_lag_seconds)}`;
  return h("span", { title }, "not known");
}
