/** The topics of a flow, as a table that the server filters and sorts. */

import * as api from "../api.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { flowHead } from "../parts.js";
import { go, path, setQuery } from "../router.js";
import { Table } from "../table.js";
import { filterField, stateCell } from "./partitions.js";

const SORTS = [
  ["seconds", "furthest behind"],
  ["records", "most records behind"],
  ["bytes", "most bytes behind"],
  ["name", "name"],
];
const DELAY_MS = 200;

export class TopicsPage {
  constructor(app, { flow }, query) {
    this.app = app;
    this.flow = flow;
    this.q = query.get("q") ?? "";
    this.state = query.get("state") ?? "";
    this.sort = query.get("sort") ?? "name";
    this.table = new Table({
      label: `Topics of ${flow}`,
      word: "topic",
      keyOf: (row) => row.topic,
      open: (row) => go(path("flows", flow, "topics", row.topic)),
      load: async (offset, limit, signal) => {
        const found = await api.get(
          api.of(flow, "topics", { q: this.q, state: this.state, sort: this.sort, offset, limit }),
          signal,
        );
        return {
          total: found.total,
          rows: found.topics,
          none: found.not_discovered ? `The topics are not known yet: the flow waits for ${found.not_discovered}.` : "",
        };
      },
      columns: [
        {
          head: "Topic",
          grow: 3,
          narrow: "minmax(0, 1fr)",
          cell: (row) =>
            h(
              "a",
              {
                href: path("flows", flow, "topics", row.topic),
                title: `${row.topic}, on the target ${row.target_topic}`,
                tabindex: "-1",
              },
              row.topic,
            ),
        },
        { head: "State", width: "8rem", narrow: "2.2rem", cell: (row) => stateCell(worst(row)) },
        {
          head: "Behind",
          width: "6.5rem",
          number: true,
          narrow: "5rem",
          cell: (row) => (row.lag_seconds === null ? "not known" : format.age(row.lag_seconds)),
        },
        {
          head: "Records",
          width: "7rem",
          number: true,
          cell: (row) => (row.lag_records === null ? "not known" : format.whole(row.lag_records)),
        },
        { head: "Partitions", width: "6rem", number: true, cell: (row) => format.whole(row.partitions) },
        { head: "Copied", width: "7rem", number: true, cell: (row) => format.short(row.records) },
        { head: "Why", grow: 3, cell: (row) => h("span", { title: row.why || null }, row.why) },
      ],
    });
  }

  title() {
    return `Topics of ${this.flow}`;
  }

  start() {
    this.table.start();
  }

  stop() {
    clearTimeout(this.timer);
    this.table.stop();
  }

  #set(name, value) {
    this[name] = value;
    setQuery({ q: this.q, state: this.state, sort: this.sort === "name" ? "" : this.sort });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.table.reset(), name === "q" ? DELAY_MS : 0);
    this.app.update();
  }

  view() {
    return [
      flowHead(this.app, this.flow, "topics"),
      h(
        "div",
        { class: "filters" },
        filterField(this.q, "Topic", (value) => this.#set("q", value)),
        h(
          "label",
          { class: "select" },
          h("span", {}, "Order"),
          h(
            "select",
            { class: "input", value: this.sort, on: { change: (event) => this.#set("sort", event.target.value) } },
            SORTS.map(([value, text]) => h("option", { value, selected: value === this.sort }, text)),
          ),
        ),
        this.state
          ? h(
              "button",
              { type: "button", class: "chip", "aria-pressed": "true", on: { click: () => this.#set("state", "") } },
              `only ${this.state}, remove`,
            )
          : null,
      ),
      slot(this.table, { class: "table-slot", key: "table" }),
    ];
  }
}

const RANK = ["copying", "watching", "paused", "unowned", "silent", "failed"];

/** The state of a topic: that of its partition that is worst off. */
export function worst(topic) {
  if (topic.paused) return "paused";
  const states = Object.keys(topic.states);
  return states.sort((one, other) => RANK.indexOf(other) - RANK.indexOf(one))[0] ?? "unowned";
}
