/** What was done before: operations and failovers, as they are stored on the clusters. */

import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { note, panel, time } from "../parts/parts.js";

export class Past {
  constructor(page) {
    this.stored = page.addFlowLoader("operations", { atStart: false });
  }

  view() {
    return panel(
      "Failovers and operations so far",
      { tools: this.stored.button("Read from both clusters", "Read again") },
      this.stored.view(pastList, { before: note("What was done before is stored on both clusters.") }),
    );
  }
}

function pastList({ operations, failovers, failovers_unread: unread, away }) {
  const rows = [
    ...operations.map((one) => [one.began_ms, `${one.kind} of ${one.flow}`, one.state, one.why]),
    ...failovers.map((one) => [
      one.at_ms,
      `failover of ${one.flow}`,
      one.stands ? "keeps the flow stopped" : "no longer in force",
      one.text,
    ]),
  ].sort(([one], [other]) => other - one);
  const unknown = [...Object.entries(away), ...Object.entries(unread)];
  return [
    rows.length
      ? h(
          "ul",
          { class: "notes past" },
          rows.map(([atMs, what, state, text]) =>
            h("li", {}, time(atMs, format.instant), ` ${what}: ${state}${text ? ` (${text})` : ""}`),
          ),
        )
      : note("None is stored."),
    unknown.map(([who, why]) => note(`Not known: ${who}: ${why}`)),
  ];
}
