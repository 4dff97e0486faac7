/** The filters of a list: fields, choices and chips, with their values in the address of the page. */

import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { setQuery } from "../base/router.js";

const TYPING_MS = 200;

/** How lists of topics and partitions are ordered. */
export const ORDERS = [
  ["seconds", "furthest behind"],
  ["records", "most records behind"],
  ["bytes", "most bytes behind"],
  ["name", "name"],
];

export class Filters {
  /**
   * `plain`: what each filter is without a choice, which no address has; `changed()`: to be drawn again; `settled()`: a
   * choice was made, or the typing rests.
   */
  constructor(query, plain, { changed, settled = () => {} }) {
    Object.assign(this, { plain, changed, settled });
    this.values = Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, query.get(name) ?? value]));
    this.timer = 0;
  }

  start() {}

  stop() {
    clearTimeout(this.timer);
  }

  set(name, value, waitMs = 0) {
    this.values[name] = value;
    const chosen = Object.entries(this.values).filter(([one, present]) => present !== this.plain[one]);
    setQuery(Object.fromEntries(chosen));
    clearTimeout(this.timer);
    this.timer = setTimeout(this.settled, waitMs);
    this.changed();
  }

  /** A field to type into. */
  field(name, text) {
    return filterField(this.values[name], text, (value) => this.set(name, value, TYPING_MS));
  }

  /** A list to choose from: `[value, text]`. */
  choice(name, text, options) {
    return choice(this.values[name], text, options, (value) => this.set(name, value));
  }

  /** Chips of which one is pressed: `[value, text, count]`; `label` names them for a screen reader. */
  chips(name, label, options) {
    const present = this.values[name];
    return h(
      "div",
      { class: "chips", role: "group", "aria-label": label },
      options.map(([value, text, count = null]) =>
        chip(text, value === present, () => this.set(name, value), { key: value, count }),
      ),
    );
  }
}

/** The row in which filters stand. */
export function filterRow(...filters) {
  return h("div", { class: "filters" }, ...filters);
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

/** A list to choose from: `[value, text]`. */
export function choice(present, text, options, changed) {
  return h(
    "label",
    { class: "select" },
    h("span", {}, text),
    h(
      "select",
      { class: "input", value: present, on: { change: (event) => changed(event.target.value) } },
      options.map(([value, word]) => h("option", { value, selected: value === present }, word)),
    ),
  );
}

/** A button that stays pressed. */
export function chip(text, isPressed, run, { key, count = null } = {}) {
  return h(
    "button",
    { type: "button", class: "chip", "aria-pressed": String(isPressed), on: { click: run }, key },
    text,
    count === null ? null : h("b", {}, format.whole(count)),
  );
}
