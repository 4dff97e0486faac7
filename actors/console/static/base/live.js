/**
 * Follows the mirror by one stream of server-sent events. It is read with `fetch`, because `EventSource` hides why a stream
 * was refused.
 *
 * A lost stream is opened again after a pause that grows, and continues where it was (`Last-Event-ID`). A page that nobody
 * looks at closes its stream after a while, so it costs the mirror nothing.
 */

import { headers } from "./api.js";

const URL_OF_STREAM = "/api/v1/stream";
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
const SILENT_MS = 45_000; // the server sends a comment every 15 s
const HIDDEN_MS = 60_000;

export class Live {
  /** `on`: functions by kind of event; `said(state)`: `live`, `lost`, `paused`, `ended` or `refused`. */
  constructor(on, said) {
    this.on = on;
    this.said = said;
    this.id = "";
    this.stopped = false;
    this.abort = null;
    this.heardMs = 0; // when the server sent something last, by the clock of the browser
    this.wake = null;
    this.hiddenTimer = 0;
    this.onVisibility = () => this.#visibility();
  }

  start() {
    document.addEventListener("visibilitychange", this.onVisibility);
    this.#run();
  }

  stop() {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.onVisibility);
    clearTimeout(this.hiddenTimer);
    this.abort?.abort();
    this.wake?.();
  }

  #visibility() {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) this.hiddenTimer = setTimeout(() => this.abort?.abort(), HIDDEN_MS);
    else this.wake?.();
  }

  async #run() {
    let pauseMs = FIRST_PAUSE_MS;
    while (!this.stopped) {
      const began = Date.now();
      const again = await this.#follow();
      if (this.stopped || !again) return;
      if (Date.now() - began > LONGEST_PAUSE_MS) pauseMs = FIRST_PAUSE_MS;
      const isHidden = document.hidden;
      this.said(isHidden ? "paused" : "lost");
      await this.#pause(isHidden ? 0 : pauseMs);
      if (isHidden) this.said("lost"); // somebody looks again, at what may be old until the server answers
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
  }

  /** Waits; without a time, until the page is looked at. */
  #pause(ms) {
    return new Promise((resolve) => {
      const timer = ms ? setTimeout(resolve, ms) : 0;
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    }).finally(() => (this.wake = null));
  }

  /** Reads one stream to its end; returns whether to connect again. */
  async #follow() {
    this.abort = new AbortController();
    const more = this.id ? { Accept: "text/event-stream", "Last-Event-ID": this.id } : { Accept: "text/event-stream" };
    let silent = 0;
    const beat = () => {
      clearTimeout(silent);
      silent = setTimeout(() => this.abort.abort(), SILENT_MS);
    };
    try {
      beat();
      const signal = this.abort.signal;
      const answer = await fetch(URL_OF_STREAM, {
        headers: headers(more),
        credentials: "same-origin",
        cache: "no-store",
        signal,
      });
      if (answer.status === 401) {
        this.said("refused");
        return false;
      }
      if (!answer.ok) return true;
      this.said("live");
      return await this.#read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), beat);
    } catch {
      return true; // cut off, or not reachable
    } finally {
      clearTimeout(silent);
    }
  }

  async #read(reader, beat) {
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return true;
      this.heardMs = Date.now();
      beat();
      text += value.replaceAll("\r", "");
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const message = text.slice(0, end);
        text = text.slice(end + 2);
        if (this.#take(message) === false) return false;
      }
    }
  }

  /** Handles one message; returns false if it was the last. */
  #take(message) {
    let kind = "message";
    const data = [];
    for (const line of message.split("\n")) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue; // a comment
      const value = line.slice(colon + 1).replace(/^ /, "");
      if (line.startsWith("id:")) this.id = value;
      else if (line.startsWith("event:")) kind = value;
      else if (line.startsWith("data:")) data.push(value);
    }
    if (!data.length) return true;
    const found = JSON.parse(data.join("\n"));
    if (kind === "end") {
      this.id = "";
      if (!found.again) this.said("ended", found.why);
      return found.again;
    }
    this.on[kind]?.(found);
    return true;
  }
}
