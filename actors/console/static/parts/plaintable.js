/** A table of few rows, all of them in the page. On a narrow page it scrolls by itself. */

import { MOST_ROWS, notShown } from "./parts.js";
import { h } from "../base/dom.js";

/**
 * `columns`: `{head, cell(row), number, kind, title(row)}`; the first cell names its row. `keyOf(row)` says which row it is;
 * `word`: what a row is, for the count of those that are not shown.
 */
export function plainTable({ label, columns, rows, keyOf, word = "row", kind = "" }) {
  return [
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      h(
        "table",
        { class: kind ? `plain-table ${kind}` : "plain-table" },
        h("thead", {}, h("tr", {}, columns.map(headOf))),
        h(
          "tbody",
          {},
          rows.slice(0, MOST_ROWS).map((row) =>
            h(
              "tr",
              { key: keyOf(row) },
              columns.map((one, at) => cellOf(one, row, at === 0)),
            ),
          ),
        ),
      ),
    ),
    notShown(rows.length, word),
  ];
}

function headOf(column) {
  return h("th", { scope: "col", class: column.number ? "number" : null }, column.head);
}

function cellOf(column, row, isFirst) {
  const props = { class: column.number ? "number" : column.kind, title: column.title?.(row) };
  return isFirst ? h("th", { scope: "row" }, column.cell(row)) : h("td", props, column.cell(row));
}
