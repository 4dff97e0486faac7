/** Columns that several tables have: names that are links, states, numbers that may not be known, reasons. */

import { icon } from "./icons.js";
import { stateHealth } from "./parts.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { go, path } from "../base/router.js";

/** The name of a row, which leads to its page; `title`: what a tooltip says of it. */
export function nameColumn(head, { text, href, title = text }) {
  return {
    head,
    grow: 3,
    narrow: "minmax(0, 1fr)",
    cell: (row) => h("a", { href: href(row), title: title(row), tabindex: "-1" }, text(row)),
  };
}

/** The name of a partition: `partition(flow)` has its column, its key and what opens its page. */
export function partitionRows(flow) {
  const text = (row) => `${row.topic}-${row.partition}`;
  const href = (row) => path("flows", flow, "partitions", row.topic, String(row.partition));
  return { keyOf: text, open: (row) => go(href(row)), column: nameColumn("Partition", { text, href }) };
}

/** A state, with a sign; on a phone only the sign. */
export function stateColumn(stateOf) {
  return { head: "State", width: "8rem", narrow: "2.2rem", cell: (row) => stateCell(stateOf(row)) };
}

function stateCell(state) {
  const health = stateHealth(state);
  return h("span", { class: `state ${health}` }, icon(health), h("span", { class: "state-word" }, state));
}

/** How old the oldest record is that is not copied. */
export function behindColumn(unknown = () => "not known") {
  const cell = (row) => (row.lag_seconds === null ? unknown(row) : format.age(row.lag_seconds));
  return { head: "Behind", width: "6.5rem", number: true, narrow: "5rem", cell };
}

/** How many records are not copied. */
export const recordsColumn = {
  head: "Records",
  width: "7rem",
  number: true,
  cell: (row) => format.orNotKnown(row.lag_records, format.whole),
};

/** A text that may be longer than its column: a tooltip has all of it, or what `title` says. */
export function textColumn(head, text, { title = text, ...how } = {}) {
  return { head, ...how, cell: (row) => h("span", { title: title(row) || null }, text(row)) };
}
