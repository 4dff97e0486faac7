/**
 * Loads what a page shows: when it opens, again and again, or at a click. It has what was found last, why it was refused,
 * and whether it is asked now. Only the last question counts: an earlier one is cut off, so its answer cannot come too late.
 */

import { button, loading, refusal } from "./parts.js";

export class Loader {
  /**
   * `load(signal)` returns what is found; `changed()` is called when there is something else to be drawn.
   * `everyMs`: how often it is loaded again while somebody looks; 0: never. `atStart`: false for what loads only at a click.
   */
  constructor(load, { changed, everyMs = 0, atStart = true }) {
    Object.assign(this, { load, changed, everyMs, atStart });
    this.found = null;
    this.refused = "";
    this.isBusy = false; // somebody waits for the answer
    this.isStopped = false;
    this.abort = null;
    this.timer = 0;
  }

  /** Begins, with the page. */
  start() {
    if (this.atStart) this.ask();
  }

  /** Ends for good, with the page. */
  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  /** Loads at a click: until the answer is there, the page shows that it is asked. */
  ask() {
    this.isBusy = true;
    this.changed();
    return this.refresh();
  }

  /** Asks something else: what was found before no longer holds. */
  askAfresh() {
    this.found = null;
    this.refused = "";
    return this.ask();
  }

  /** Loads once more; what is shown stays until then. */
  async refresh() {
    if (this.isStopped) return;
    clearTimeout(this.timer);
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    try {
      const found = await this.load(signal);
      if (signal.aborted) return;
      this.found = found;
      this.refused = "";
    } catch (error) {
      if (signal.aborted) return;
      this.refused = error.message;
    }
    this.isBusy = false;
    this.#later();
    this.changed();
  }

  #later() {
    if (!this.everyMs) return;
    this.timer = setTimeout(() => (document.hidden ? this.#later() : this.refresh()), this.everyMs);
  }

  /** Whether there is an answer, so that what stands below it is no longer moved by it. */
  get isAnswered() {
    return this.found !== null || this.refused !== "";
  }

  /**
   * Draws what was found; says so if it was refused, is still loading (`waiting`), or was not asked for (`before`). What was
   * found at a click is not shown below a later refusal, because nothing tells that it still holds.
   */
  view(draw, { waiting = loading(), before = null } = {}) {
    const { found, refused, atStart } = this;
    if (found !== null && (atStart || !refused)) return [refused ? refusal(refused) : null, draw(found)];
    if (refused) return refusal(refused);
    return atStart || this.isBusy ? waiting : before;
  }

  /** The button that asks; `again`: its text once something was found. */
  button(text, again = text) {
    const present = this.isBusy ? "Asking both clusters…" : this.found === null ? text : again;
    return button(present, () => this.ask(), { isOff: this.isBusy });
  }
}
