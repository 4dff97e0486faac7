/**
 * A table of any length: the server filters, sorts and cuts it into pages; only rows that can be seen are in the page.
 *
 * Rows have one height. Pages around what is seen are fetched when they are needed, and again while the table is watched.
 * Keys: arrows, Page Up and Down, Home and End move; Enter opens.
 */

import { fill, h } from "./dom.js";
import { counted } from "./format.js";

const ROW_PX = 38;
const PAGE = 100;
const BEYOND = 8; // rows drawn above and below what is seen
const REFRESH_MS = 2_000;

export class Table {
  /**
   * `columns`: `{head, cell(row), grow, width, number, narrow}`; `narrow`: shown on a phone too.
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
    Object.assign(this, { columns, load, keyOf, open, none, word, refreshMs });
    this.total = null;
    this.pages = new Map();
    this.at = 0; // the row that the keys move
    this.refused = "";
    this.abort = null;
    this.timer = 0;
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.space = h("div", { class: "rows-space" }, this.body);
    this.scroller = h("div", {
      class: "table-scroll",
      role: "table",
      tabindex: "0",
      "aria-label": label,
      on: { scroll: () => this.#scrolled(), keydown: (event) => this.#key(event) },
    });
    this.count = h("p", { class: "table-count", role: "status" });
    this.element = h("div", { class: "table" }, this.scroller, this.count);
    this.scroller.style.setProperty(
      "--columns",
      columns.map((one) => one.width ?? `minmax(0, ${one.grow ?? 1}fr)`).join(" "),
    );
    this.scroller.style.setProperty(
      "--columns-narrow",
      columns
        .filter((one) => one.narrow)
        .map((one) => one.narrow)
        .join(" "),
    );
    this.scroller.append(this.#head(), this.space);
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

  /** Begins again at the top: another filter or order. */
  reset() {
    this.pages.clear();
    this.scroller.scrollTop = 0;
    this.at = 0;
    this.refresh();
  }

  /** Keeps the rows that are seen fresh until `stop`. */
  start() {
    this.stopped = false;
    this.draw();
    this.refresh();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  /** Loads what is seen again; rows that are not seen are forgotten. */
  async refresh() {
    clearTimeout(this.timer);
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    try {
      const [first, last] = this.#range();
      const wanted = new Set([pageOf(first), pageOf(Math.max(first, last - 1))]);
      const found = await Promise.all(
        [...wanted].map(async (page) => [page, await this.load(page * PAGE, PAGE, abort.signal)]),
      );
      if (abort.signal.aborted) return;
      this.refused = "";
      this.pages = new Map(found.map(([page, answer]) => [page, answer.rows]));
      this.total = found.at(-1)[1].total;
      this.noneNow = found.at(-1)[1].none || this.none;
      this.at = Math.max(0, Math.min(this.at, this.total - 1));
    } catch (error) {
      if (abort.signal.aborted) return;
      this.refused = error.message;
    }
    this.draw();
    if (this.stopped || abort.signal.aborted || !this.refreshMs) return;
    this.timer = setTimeout(() => this.#again(), this.refreshMs);
  }

  #again() {
    if (document.hidden) this.timer = setTimeout(() => this.#again(), this.refreshMs);
    else this.refresh();
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
      const known = this.pages.has(pageOf(first)) && this.pages.has(pageOf(Math.max(first, last - 1)));
      if (!known) this.refresh();
    });
  }

  #row(index) {
    return this.pages.get(pageOf(index))?.[index % PAGE] ?? null;
  }

  /** Draws the rows that are seen. */
  draw() {
    const total = this.total ?? 0;
    this.scroller.setAttribute("aria-rowcount", String(total + 1));
    this.space.style.setProperty("height", `${total * ROW_PX}px`);
    const [first, last] = this.#range();
    this.body.style.setProperty("transform", `translateY(${first * ROW_PX}px)`);
    const rows = [];
    for (let index = first; index < Math.min(last, total); index += 1) rows.push(this.#drawRow(index));
    fill(this.body, rows);
    fill(this.count, this.#status(total));
  }

  #status(total) {
    if (this.refused) return h("span", { class: "refused" }, this.refused);
    if (this.total === null) return "loading";
    return total ? counted(total, this.word) : this.noneNow;
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

function pageOf(index) {
  return Math.floor(index / PAGE);
}

function classOf(column) {
  return ["cell", column.number ? "number" : "", column.narrow ? "" : "wide-only"].filter(Boolean).join(" ");
}
