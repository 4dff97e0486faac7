/** Parts that pages are made of: badges, tiles, notices, buttons, lists of facts, lists of events. */

import { icon } from "./icons.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";

/** How many rows a list has at most that the server does not cut into pages. */
export const MOST_ROWS = 200;

const STATES = {
  running: "Running",
  waiting: "Waiting",
  paused: "Paused",
  stopped: "Stopped",
  failed_over: "Failed over",
  starting: "Starting",
  draining: "Draining",
};

/** A sign and a word: `health` is `ok`, `attention`, `trouble`, `off` or `info`. */
export function badge(health, text) {
  return h("span", { class: `badge ${health}` }, icon(health), h("span", {}, text));
}

/** The state of a flow, coloured by its health. */
export function stateBadge(flow) {
  const more = { attention: ", needs a look", trouble: ", in trouble" }[flow.health] ?? "";
  return badge(flow.health, `${STATES[flow.state] ?? flow.state}${more}`);
}

/** The colour of a state of a partition or topic. */
export function stateHealth(state) {
  if (state === "failed" || state === "quarantined") return "trouble";
  if (state === "copying" || state === "watching") return "ok";
  if (state === "paused" || state === "stopped") return "off";
  return "attention";
}

/** The head of a page that is of no flow: its name, and what it is for. */
export function pageHead(title, sentence) {
  return [h("div", { class: "page-head" }, h("h1", {}, title)), h("p", { class: "sentence" }, sentence)];
}

/** The head of what a page is about, with its buttons; `label` names them for a screen reader. */
export function subHead(title, label, ...buttons) {
  return h(
    "div",
    { class: "sub-head" },
    h("h2", {}, title),
    h("span", { class: "grow" }),
    buttons.some(Boolean) ? actions(label, ...buttons) : null,
  );
}

/** One of the questions of the person on duty, and its answer. */
export function tile({ question, answer, detail, health, href, link }) {
  return h(
    "section",
    { class: `tile ${health}` },
    h("h2", {}, question),
    h("p", { class: "answer" }, icon(health), h("span", {}, answer)),
    h("p", { class: "detail" }, detail),
    href ? h("a", { class: "tile-link", href }, link) : null,
  );
}

/** Names with their values: `[name, value, title]`. */
export function facts(rows) {
  return h(
    "dl",
    { class: "facts" },
    rows.filter(Boolean).map(([name, value, title]) => h("div", {}, h("dt", {}, name), h("dd", { title }, value))),
  );
}

/** A part of a page with its own heading; `tools`: what stands beside the heading. */
export function panel(title, props, ...children) {
  return h(
    "section",
    { class: props.class ? `panel ${props.class}` : "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, title), props.tools),
    ...children,
  );
}

/** A sentence that explains, or says that there is nothing. */
export function note(...text) {
  return h("p", { class: "soft" }, ...text);
}

/** Something that somebody should see, in the colour of its health. */
export function notice(health, ...children) {
  return h("p", { class: `notice ${health}` }, icon(health), h("span", {}, ...children));
}

/** Says why something is not shown or not done. */
export function refusal(text) {
  return h("p", { class: "refused", role: "alert" }, text);
}

/** What stands where data will come. */
export function loading(text = "Loading…") {
  return h("p", { class: "soft", key: "loading" }, text); // a key, so that it does not become what comes in its place
}

/** What stands in a dialog while something is computed or checked. */
export function computing(text) {
  return h("p", { class: "computing", role: "status" }, text);
}

/** Says how many rows are not shown; nothing if all are. */
export function notShown(count, word) {
  return count > MOST_ROWS ? note(`and ${format.counted(count - MOST_ROWS, `more ${word}`)}`) : null;
}

/**
 * A button. `sign`: its icon; `kind`: `primary`, `danger` or `small`; `why`: why it cannot be pressed now, as a tooltip;
 * `isOff`: it cannot be pressed for a reason that the page shows. Without `run` it sends its form.
 */
export function button(text, run, { sign = "", kind = "", why = "", isOff = false } = {}) {
  return h(
    "button",
    {
      type: run ? "button" : "submit",
      class: kind ? `button ${kind}` : "button",
      disabled: isOff || Boolean(why),
      title: why || null,
      on: run ? { click: run } : null,
    },
    sign ? [icon(sign), h("span", {}, text)] : text,
  );
}

/** Buttons that belong together; `label` names them for a screen reader. */
export function actions(label, ...buttons) {
  return h("div", { class: "actions", role: "group", "aria-label": label }, ...buttons);
}

/** A bar that is filled to a share of 1. The policy of the page forbids styles in attributes, so the width is set here. */
export function bar(share, kind, text) {
  const filled = h("i", { class: kind });
  filled.style.setProperty("width", `${(100 * Math.max(0, Math.min(1, share))).toFixed(2)}%`);
  return h("div", { class: "bar", role: "img", "aria-label": text }, filled);
}

/** An instant, with the time of this browser as a tooltip. */
export function time(ms, write = format.clock) {
  return h("time", { datetime: ms > 0 ? new Date(ms).toISOString() : null, title: format.local(ms) }, write(ms));
}

/** A link to a flow, or to one of its pages. */
export function flowLink(flow, ...more) {
  return h("a", { href: path("flows", flow, ...more) }, format.flow(flow));
}

/** What somebody should look at: `[health, text, href]`; nothing if there are none. */
export function troubleList(rows) {
  if (!rows.length) return null;
  return h(
    "ul",
    { class: "troubles" },
    rows.map(([health, text, href]) =>
      h("li", { class: health }, icon(health), h("span", {}, text), href ? h("a", { href }, "Show") : null),
    ),
  );
}

/** Names with their reasons, as a part of a page: `[name, why]`; nothing if there are none. */
export function reasonsPanel(title, reasons, health) {
  if (!reasons.length) return null;
  const rows = reasons.slice(0, MOST_ROWS).map(([name, why]) => [health, [h("b", {}, name), why ? ` ${why}` : ""]]);
  return panel(title, {}, troubleList(rows), notShown(reasons.length, "row"));
}

/** A list of sentences. */
export function noteList(notes, more = "") {
  return h(
    "ul",
    { class: more ? `notes ${more}` : "notes" },
    notes.map((one) => h("li", {}, one)),
  );
}

/** A list of events, the newest first. */
export function eventList(events, { withFlow = true } = {}) {
  if (!events.length) return note("Nothing has happened.");
  return h(
    "ol",
    { class: "events" },
    events.map((event) =>
      h(
        "li",
        { class: event.severity, key: `${event.at_ms} ${event.kind} ${event.flow} ${event.text}` },
        time(event.at_ms),
        severity(event.severity),
        withFlow && event.flow ? flowLink(event.flow) : null,
        h("span", { class: "event-text" }, event.text),
      ),
    ),
  );
}

/** The sign of a severity, with its word for screen readers. */
function severity(name) {
  const health = { error: "trouble", warning: "attention" }[name] ?? "info";
  return h(
    "span",
    { class: `severity ${health}`, title: name },
    icon(health),
    h("span", { class: "visually-hidden" }, name),
  );
}
