/** What all pages have in common: parts that begin when the page opens and end when it is left. */

import * as api from "../base/api.js";
import { flowHead, tabTitle } from "../flow/flowhead.js";
import { Filters } from "../parts/filters.js";
import { Loader } from "../parts/loader.js";

const GRACE_MS = 3_000; // after which a page is drawn although the server has not said all that stands at its top

export class Page {
  constructor(app) {
    this.app = app;
    this.parts = [];
  }

  /** Adds a part that has `start` and `stop`; returns it. */
  add(part) {
    this.parts.push(part);
    return part;
  }

  /** Adds something that loads; the page is drawn again when it has changed. */
  addLoader(load, options = {}) {
    return this.add(new Loader(load, { changed: () => this.app.update(), ...options }));
  }

  /** Adds filters of the page's `table`. */
  addFilters(query, plain) {
    const how = { changed: () => this.app.update(), settled: () => this.table?.reset() };
    return this.add(new Filters(query, plain, how));
  }

  start() {
    for (const part of this.parts) part.start();
  }

  stop() {
    for (const part of this.parts) part.stop();
  }
}

/** A page of one flow, under the tab that its class names in `tab`; `body()` returns what it shows. */
export class FlowTab extends Page {
  constructor(app, { flow }) {
    super(app);
    this.flow = flow;
    this.openedMs = Date.now();
  }

  title() {
    return `${tabTitle(this.constructor.tab)} of ${this.flow}`;
  }

  /** Adds something of the flow that loads: what `GET /api/v1/flows/FLOW/<what>` answers. */
  addFlowLoader(what, options = {}) {
    return this.addLoader((signal) => api.get(api.of(this.flow, what), signal), options);
  }

  /** The name of the flow, its actions and tabs; below them what `body` draws, once nothing above will move it any more. */
  view() {
    const isKnown = this.app.store.mirror !== null && (this.runs?.isAnswered ?? true);
    const isReady = isKnown || Date.now() - this.openedMs > GRACE_MS;
    return [flowHead(this.app, this.flow, this.constructor.tab), isReady ? this.body() : null];
  }
}
