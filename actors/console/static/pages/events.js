/** What has happened in the running mirror, filtered. */

import { Page } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { filterRow } from "../parts/filters.js";
import { eventList, pageHead } from "../parts/parts.js";

const RANK = { info: 0, warning: 1, error: 2 };
const SEVERITIES = [
  ["info", "all"],
  ["warning", "warnings and errors"],
  ["error", "errors"],
];

export class EventsPage extends Page {
  constructor(app, _params, query) {
    super(app);
    this.filters = this.addFilters(query, { q: "", flow: "", severity: "info" });
    this.older = this.addLoader((signal) => api.get("/events?limit=500", signal)); // of before the stream began
  }

  title() {
    return "Events";
  }

  view() {
    const { older } = this;
    const events = this.#events();
    return [
      pageHead(
        "Events",
        older.found
          ? `The mirror keeps those since ${format.instant(older.found.from_ms)}. Older ones: raymirror events --since 24h`
          : "The newest come by themselves.",
      ),
      older.view(() => null),
      older.isAnswered ? [this.#filterRow(), eventList(events), countOf(events)] : null,
    ];
  }

  #filterRow() {
    const { filters } = this;
    const flows = [...this.app.store.flows.keys()].map((flow) => [flow, format.flow(flow)]);
    return filterRow(
      filters.field("q", "Text, partition or copier"),
      flows.length > 1 ? filters.choice("flow", "Flow", [["", "all"], ...flows]) : null,
      filters.chips("severity", "Severity", SEVERITIES),
    );
  }

  /** All events that match, the newest first; one that the stream has too is there once. */
  #events() {
    const { q, flow, severity } = this.filters.values;
    const word = q.toLowerCase();
    const keyOf = (event) => `${event.at_ms} ${event.kind} ${event.flow} ${event.text}`;
    const known = [...(this.older.found?.events ?? []), ...this.app.store.events];
    return [...new Map(known.map((event) => [keyOf(event), event])).values()]
      .filter((event) => (RANK[event.severity] ?? 0) >= RANK[severity])
      .filter((event) => !flow || event.flow === flow)
      .filter(
        (event) => !word || `${event.flow} ${event.text} ${event.about} ${event.kind}`.toLowerCase().includes(word),
      )
      .sort((one, other) => other.at_ms - one.at_ms);
  }
}

function countOf(events) {
  return h("p", { class: "table-count", role: "status" }, format.counted(events.length, "event"));
}
