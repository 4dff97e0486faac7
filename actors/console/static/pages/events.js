/** What has happened in the running mirror, filtered. */

import { h } from "../dom.js";
import * as format from "../format.js";
import * as api from "../api.js";
import { eventList, loading, refusal } from "../parts.js";
import { setQuery } from "../router.js";
import { filterField } from "./partitions.js";

const RANK = { info: 0, warning: 1, error: 2 };
const CHOICES = [
  ["info", "all"],
  ["warning", "warnings and errors"],
  ["error", "errors"],
];

export class EventsPage {
  constructor(app, _params, query) {
    this.app = app;
    this.q = query.get("q") ?? "";
    this.severity = query.get("severity") ?? "info";
    this.flow = query.get("flow") ?? "";
    this.older = null; // events of before the stream began
    this.fromMs = null;
    this.refused = "";
  }

  title() {
    return "Events";
  }

  start() {
    this.abort = new AbortController();
    this.#load();
  }

  stop() {
    this.abort.abort();
  }

  async #load() {
    try {
      const found = await api.get("/events?limit=500", this.abort.signal);
      this.older = found.events;
      this.fromMs = found.from_ms;
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.refused = error.message;
    }
    this.app.update();
  }

  #set(name, value) {
    this[name] = value;
    setQuery({ q: this.q, flow: this.flow, severity: this.severity === "info" ? "" : this.severity });
    this.app.update();
  }

  #events() {
    const { store } = this.app;
    const keyOf = (event) => `${event.at_ms} ${event.kind} ${event.flow} ${event.text}`;
    const all = new Map([...(this.older ?? []), ...store.events].map((event) => [keyOf(event), event]));
    const q = this.q.toLowerCase();
    return [...all.values()]
      .filter((event) => (RANK[event.severity] ?? 0) >= RANK[this.severity])
      .filter((event) => !this.flow || event.flow === this.flow)
      .filter((event) => !q || `${event.flow} ${event.text} ${event.about} ${event.kind}`.toLowerCase().includes(q))
      .sort((one, other) => other.at_ms - one.at_ms);
  }

  view() {
    const events = this.#events();
    const flows = [...this.app.store.flows.keys()];
    return [
      h("div", { class: "page-head" }, h("h1", {}, "Events")),
      h(
        "p",
        { class: "sentence" },
        this.fromMs === null
          ? "The newest come by themselves."
          : `The mirror keeps those since ${format.instant(this.fromMs)}. Older ones: raymirror events --since 24h`,
      ),
      h(
        "div",
        { class: "filters" },
        filterField(this.q, "Text, partition or copier", (value) => this.#set("q", value)),
        flows.length > 1
          ? h(
              "label",
              { class: "select" },
              h("span", {}, "Flow"),
              h(
                "select",
                { class: "input", value: this.flow, on: { change: (event) => this.#set("flow", event.target.value) } },
                h("option", { value: "", selected: !this.flow }, "all"),
                flows.map((flow) => h("option", { value: flow, selected: flow === this.flow }, flow)),
              ),
            )
          : null,
        h(
          "div",
          { class: "chips", role: "group", "aria-label": "Severity" },
          CHOICES.map(([value, text]) =>
            h(
              "button",
              {
                type: "button",
                class: "chip",
                "aria-pressed": String(this.severity === value),
                on: { click: () => this.#set("severity", value) },
              },
              text,
            ),
          ),
        ),
      ),
      this.refused ? refusal(this.refused) : null,
      this.older === null && !this.refused ? loading() : eventList(events),
      h("p", { class: "table-count", role: "status" }, format.counted(events.length, "event")),
    ];
  }
}
