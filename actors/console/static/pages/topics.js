/** The topics of a flow, as a table that the server filters and sorts. */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import * as format from "../base/format.js";
import { go, path } from "../base/router.js";
import { notDiscovered } from "../flow/words.js";
import { behindColumn, nameColumn, recordsColumn, stateColumn, textColumn } from "../parts/columns.js";
import { chip, filterRow, ORDERS } from "../parts/filters.js";
import { Table } from "../parts/table.js";

export class TopicsPage extends FlowTab {
  static tab = "topics";

  constructor(app, params, query) {
    super(app, params);
    this.filters = this.addFilters(query, { q: "", state: "", sort: "name" });
    const href = (row) => path("flows", this.flow, "topics", row.topic);
    this.table = this.add(
      new Table({
        label: `Topics of ${this.flow}`,
        word: "topic",
        keyOf: (row) => row.topic,
        open: (row) => go(href(row)),
        load: (offset, limit, signal) => this.#load({ ...this.filters.values, offset, limit }, signal),
        columns: columns(href),
      }),
    );
  }

  async #load(query, signal) {
    const found = await api.get(api.of(this.flow, "topics", query), signal);
    return { total: found.total, rows: found.topics, none: notDiscovered(found, "The topics are") };
  }

  body() {
    const { filters } = this;
    const { state } = filters.values;
    return [
      filterRow(
        filters.field("q", "Topic"),
        filters.choice("sort", "Order", ORDERS),
        state ? chip(`only ${state}, remove`, true, () => filters.set("state", "")) : null,
      ),
      this.table.view(),
    ];
  }
}

function columns(href) {
  const title = (row) => `${row.topic}, on the target ${row.target_topic}`;
  return [
    nameColumn("Topic", { text: (row) => row.topic, href, title }),
    stateColumn(worst),
    behindColumn(),
    recordsColumn,
    { head: "Partitions", width: "6rem", number: true, cell: (row) => format.whole(row.partitions) },
    { head: "Copied", width: "7rem", number: true, cell: (row) => format.short(row.records) },
    textColumn("Why", (row) => row.why, { grow: 3 }),
  ];
}

const RANK = ["copying", "watching", "paused", "unowned", "silent", "failed"];

/** The state of a topic: that of its partition that is worst off. */
function worst(topic) {
  if (topic.paused) return "paused";
  const states = Object.keys(topic.states);
  return states.sort((one, other) => RANK.indexOf(other) - RANK.indexOf(one))[0] ?? "unowned";
}
