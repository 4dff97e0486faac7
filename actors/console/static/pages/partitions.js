/** The partitions of a flow, or of one topic, as a table that the server filters and sorts. */

import * as api from "../api.js";
import { h, slot } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { flowHead, stateHealth } from "../parts.js";
import { go, path, setQuery } from "../router.js";
import { Table } from "../table.js";

const SORTS = [
  ["seconds", "furthest behind"],
  ["records", "most records behind"],
  ["bytes", "most bytes behind"],
  ["name", "name"],
];
const DELAY_MS = 200;

/** The filter, the order and the table of partitions; `topic`: only those of one topic. */
export class PartitionList {
  constructor(flow, { topic = "", query = new URLSearchParams(), changed }) {
    this.flow = flow;
    this.topic = topic;
    this.changed = changed;
    this.q = query.get("q") ?? "";
    this.state = query.get("state") ?? "";
    this.sort = query.get("sort") ?? "seconds";
    this.states = {};
    this.timer = 0;
    this.table = new Table({
      label: `Partitions of ${topic || flow}`,
      word: "partition",
      keyOf: (row) => `${row.topic}-${row.partition}`,
      open: (row) => go(path("flows", flow, "partitions", row.topic, String(row.partition))),
      load: async (offset, limit, signal) => {
        const found = await api.get(
          api.of(flow, "partitions", { topic, q: this.q, state: this.state, sort: this.sort, offset, limit }),
          signal,
        );
        this.states = found.states;
        this.changed();
        return {
          total: found.total,
          rows: found.partitions,
          none: found.not_discovered
            ? `The partitions are not known yet: the flow waits for ${found.not_discovered}.`
            : "",
        };
      },
      columns: [
        { head: "Partition", grow: 3, narrow: "minmax(0, 1fr)", cell: (row) => nameOf(row, flow) },
        { head: "State", width: "8rem", narrow: "2.2rem", cell: (row) => stateCell(row.state) },
        { head: "Behind", width: "6.5rem", number: true, narrow: "5rem", cell: (row) => behind(row) },
        {
          head: "Records",
          width: "7rem",
          number: true,
          cell: (row) => (row.lag_records === null ? "not known" : format.whole(row.lag_records)),
        },
        { head: "Bytes", width: "6.5rem", number: true, cell: (row) => format.size(row.lag_bytes) },
        { head: "Why", grow: 4, cell: (row) => h("span", { title: row.why || null }, row.why) },
      ],
    });
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
    setQuery({ q: this.q, state: this.state, sort: this.sort === "seconds" ? "" : this.sort });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.table.reset(), name === "q" ? DELAY_MS : 0);
    this.changed();
  }

  view() {
    const total = Object.values(this.states).reduce((sum, count) => sum + count, 0);
    const chip = (state, text, count) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(this.state === state),
          on: { click: () => this.#set("state", state) },
          key: state,
        },
        text,
        count === null ? null : h("b", {}, format.whole(count)),
      );
    const states = Object.entries(this.states).sort();
    if (this.state && this.state !== "behind" && !(this.state in this.states)) states.push([this.state, 0]);
    return [
      h(
        "div",
        { class: "filters" },
        filterField(this.q, this.topic ? "Partition" : "Topic or partition", (value) => this.#set("q", value)),
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
        h(
          "div",
          { class: "chips", role: "group", "aria-label": "State" },
          chip("", "all", total),
          chip("behind", "behind", null),
          states.map(([state, count]) => chip(state, state, count)),
        ),
      ),
      slot(this.table, { class: "table-slot", key: "table" }),
    ];
  }
}

/** A field that filters a list; `/` goes there. */
export function filterField(value, text, changed) {
  return h(
    "label",
    { class: "filter" },
    h("span", {}, text),
    h("input", {
      class: "input",
      type: "search",
      value,
      "data-filter": "",
      autocomplete: "off",
      spellcheck: "false",
      on: { input: (event) => changed(event.target.value) },
    }),
  );
}

/** The state of a partition, with a sign. */
export function stateCell(state) {
  const health = stateHealth(state);
  return h("span", { class: `state ${health}` }, icon(health), h("span", { class: "state-word" }, state));
}

function nameOf(row, flow) {
  const name = `${row.topic}-${row.partition}`;
  return h(
    "a",
    { href: path("flows", flow, "partitions", row.topic, String(row.partition)), title: name, tabindex: "-1" },
    name,
  );
}

function behind(row) {
  if (row.lag_seconds !== null) return format.age(row.lag_seconds);
  return h(
    "span",
    {
      title:
        row.heard_seconds_ago === null
          ? null
          : `as of ${format.age(row.heard_seconds_ago)} ago: ${format.age(row.heard_lag_seconds)}`,
    },
    "not known",
  );
}

export class PartitionsPage {
  constructor(app, { flow }, query) {
    this.app = app;
    this.flow = flow;
    this.list = new PartitionList(flow, { query, changed: () => app.update() });
  }

  title() {
    return `Partitions of ${this.flow}`;
  }

  start() {
    this.list.start();
  }

  stop() {
    this.list.stop();
  }

  view() {
    return [flowHead(this.app, this.flow, "partitions"), this.list.view()];
  }
}
