/**
 * A table of any length: the server filters, sorts and cuts it into pages; only rows that can be seen are in the page.
 *
 * Rows have one height. Pages around what is seen are fetched when they are needed, and again while the table is watched.
 * Keys: arrows, Page Up and Down, Home and End move; Enter opens.
 */

import { Loader } from "./loader.js";
import { fill, h, slot } from "../base/dom.js";
import { counted } from "../base/format.js";

const ROW_PX = 38;
const PAGE = 100;
const BEYOND = 8; // rows drawn above and below what is seen
const REFRESH_MS = 2_000;

export class Table {
  /**
   * `columns`: `{head, cell(row), grow, width, number, narrow}`; `narrow`: its width on a phone, which has no others.
   * `refreshMs`: how often rows that are seen are loaded again; 0: never, for what costs the mirror a process.
   * `load(offset, limit, signal)` returns `{total, rows, none}`; `keyOf(row)`; `open(row)`: goes to the page of a row.
   */
  constructor({
    label,
    columns,
    load,
    keyOf,
    open = null,
    none = "Nothing matches.",
    word = "row",
    refreshMs = REFRESH_MS,
  }) {
    Object.assign(this, { columns, load, keyOf, open, word, defaultNone: none });
    this.at = 0; // the row that the keys move
    this.loader = new Loader((signal) => this.#load(signal), { changed: () => this.draw(), everyMs: refreshMs });
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.space = h("div", { class: "rows-space" }, this.body);
    this.scroller = this.#makeScroller(label);
    this.none = h("p", { class: "table-none", role: "status" }); // why there is no row
    this.count = h("p", { class: "table-count", role: "status" });
    this.element = h("div", { class: "table" }, this.scroller, this.none, this.count);
  }

  #makeScroller(label) {
    const scroller = h(
      "div",
      {
        class: "table-scroll",
        role: "table",
        tabindex: "0",
        "aria-label": label,
        on: { scroll: () => this.#scrolled(), keydown: (event) => this.#key(event) },
      },
      this.#head(),
      this.space,
    );
    const wide = this.columns.map((one) => one.width ?? `minmax(0, ${one.grow ?? 1}fr)`);
    const narrow = this.columns.map((one) => one.narrow).filter(Boolean);
    scroller.style.setProperty("--columns", wide.join(" "));
    scroller.style.setProperty("--columns-narrow", narrow.join(" "));
    return scroller;
  }

  #head() {
    return h(
      "div",
      { class: "head", role: "rowgroup" },
      h(
        "div",
        { class: "row", role: "row" },
        this.columns.map((one) => h("div", { class: classOf(one), role: "columnheader" }, one.head)),
      ),
    );
  }

  /** Where a page has the table. */
  view() {
    return slot(this, { class: "table-slot", key: "table" });
  }

  /** Begins again at the top: another filter or order. */
  reset() {
    this.loader.found?.pages.clear();
    this.scroller.scrollTop = 0;
    this.at = 0;
    this.loader.refresh();
  }

  /** Keeps the rows that are seen fresh until `stop`. */
  start() {
    this.loader.start();
  }

  stop() {
    this.loader.stop();
  }

  /** How many rows there are; null before the first answer. */
  get total() {
    return this.loader.found?.total ?? null;
  }

  /** Loads what is seen; rows that are not seen are forgotten. */
  async #load(signal) {
    const [first, last] = this.#range();
    const wanted = new Set([pageOf(first), pageOf(Math.max(first, last - 1))]);
    const found = await Promise.all(
      [...wanted].map(async (page) => [page, await this.load(page * PAGE, PAGE, signal)]),
    );
    const { total, none } = found.at(-1)[1];
    return { pages: new Map(found.map(([page, answer]) => [page, answer.rows])), total, none };
  }

  #range() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - BEYOND);
    const seen = Math.ceil((this.scroller.clientHeight || 400) / ROW_PX);
    return [first, Math.min(this.total ?? PAGE, first + seen + 2 * BEYOND)];
  }

  #scrolled() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
      const [first, last] = this.#range();
      const pages = this.loader.found?.pages;
      const isKnown = pages?.has(pageOf(first)) && pages.has(pageOf(Math.max(first, last - 1)));
      if (!isKnown) this.loader.refresh();
    });
  }

  #row(index) {
    return this.loader.found?.pages.get(pageOf(index))?.[index % PAGE] ?? null;
  }

  /** Draws the rows that are seen. */
  draw() {
    const total = this.total ?? 0;
    this.at = Math.max(0, Math.min(this.at, total - 1));
    this.scroller.setAttribute("aria-rowcount", String(total + 1));
    this.space.style.setProperty("height", `${total * ROW_PX}px`);
    const [first, last] = this.#range();
    this.body.style.setProperty("transform", `translateY(${first * ROW_PX}px)`);
    const rows = [];
    for (let index = first; index < Math.min(last, total); index += 1) rows.push(this.#drawRow(index));
    fill(this.body, rows);
    fill(this.none, total ? null : this.#status());
    fill(this.count, total ? this.#counted(total) : null);
  }

  #status() {
    const { found, refused } = this.loader;
    if (refused) return refusedText(refused);
    return found ? found.none || this.defaultNone : "Loading…";
  }

  /** How many rows there are; why they may be old, if the server has refused the last question. */
  #counted(total) {
    const { refused } = this.loader;
    return refused ? refusedText(refused) : counted(total, this.word);
  }

  #drawRow(index) {
    const row = this.#row(index);
    const props = {
      class: index === this.at ? "row at" : "row",
      role: "row",
      "aria-rowindex": index + 2,
      key: row ? this.keyOf(row) : `#${index}`,
    };
    if (row && this.open) props.on = { click: () => this.#go(index, row) };
    return h(
      "div",
      props,
      this.columns.map((one) => h("div", { class: classOf(one), role: "cell" }, row ? one.cell(row) : "…")),
    );
  }

  #go(index, row) {
    this.at = index;
    if (!String(getSelection())) this.open(row); // who selects text does not want to leave
  }

  #key(event) {
    const seen = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_PX) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: seen, PageUp: -seen, Home: -Infinity, End: Infinity };
    if (event.key === "Enter") {
      const row = this.#row(this.at);
      if (row && this.open && event.target === this.scroller) this.open(row);
      return;
    }
    if (!(event.key in steps) || !this.total) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(this.total - 1, this.at + steps[event.key]));
    const above = this.at * ROW_PX;
    const below = above + 2 * ROW_PX - this.scroller.clientHeight;
    if (this.scroller.scrollTop > above) this.scroller.scrollTop = above;
    else if (this.scroller.scrollTop < below + ROW_PX) this.scroller.scrollTop = below + ROW_PX;
    this.draw();
  }
}

function refusedText(text) {
  return h("span", { class: "refused" }, text);
}

function pageOf(index) {
  return Math.floor(index / PAGE);
}

function classOf(column) {
  return ["cell", column.number ? "number" : "", column.narrow ? "" : "wide-only"].filter(Boolean).join(" ");
}
