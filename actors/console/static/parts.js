/** Parts that pages share: badges, tiles, lists of facts, tabs, and the actions of a flow. */

import * as api from "./api.js";
import { confirm } from "./dialog.js";
import { announce, h } from "./dom.js";
import * as format from "./format.js";
import { icon } from "./icons.js";
import { path } from "./router.js";

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

/** A part of a page with its own heading. */
export function panel(title, props, ...children) {
  return h(
    "section",
    { class: `panel ${props?.class ?? ""}` },
    h("div", { class: "panel-head" }, h("h2", {}, title), props?.tools),
    ...children,
  );
}

/** Says why something is not shown. */
export function refusal(text) {
  return h("p", { class: "refused", role: "alert" }, text);
}

/** What stands where data will come. */
export function loading(text = "loading") {
  return h("p", { class: "soft" }, text);
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

/** A command to be typed, with a button that copies it. */
export function command(text) {
  const copy = async (event) => {
    const button = event.target.closest("button");
    getSelection().selectAllChildren(button.previousSibling);
    if (!navigator.clipboard) return; // without TLS a page of another machine has none: the command is selected
    await navigator.clipboard.writeText(text);
    announce("copied");
    button.dataset.copied = "yes";
  };
  return h(
    "div",
    { class: "command" },
    h("code", { tabindex: "0" }, text),
    h("button", { type: "button", class: "button small", on: { click: copy } }, icon("copy"), "Copy"),
  );
}

/** Writes a word for a shell. */
export function quoted(word) {
  return /^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const TABS = [
  ["", "Now"],
  ["topics", "Topics"],
  ["partitions", "Partitions"],
  ["groups", "Groups"],
  ["proof", "Proof"],
  ["quarantine", "Quarantine"],
  ["settings", "Settings"],
  ["failover", "Failover"],
];

/** The head of each page of a flow: its name and state, its actions, and its pages. */
export function flowHead(app, name, present) {
  const flow = app.store.flow(name);
  const [source, target] = name.split("->");
  return [
    h(
      "div",
      { class: "page-head" },
      h("h1", { class: "flow-name" }, source, h("span", { class: "arrow", "aria-label": "to" }, "→"), target),
      flow ? stateBadge(flow) : null,
      h("span", { class: "grow" }),
      flow ? flowActions(app, flow) : null,
    ),
    h(
      "p",
      { class: "sentence" },
      flow ? flow.sentence : app.store.mirror ? "The mirror has no flow of this name." : "loading",
    ),
    h(
      "nav",
      { class: "tabs", "aria-label": `Pages of ${name}` },
      TABS.map(([part, title]) =>
        h(
          "a",
          {
            href: part ? path("flows", name, part) : path("flows", name),
            "aria-current": part === present ? "page" : null,
          },
          title,
        ),
      ),
    ),
  ];
}

function flowActions(app, flow) {
  const may = app.may("operate");
  const why = may ? null : "Needs the role operate";
  const button = (sign, text, run) =>
    h(
      "button",
      { type: "button", class: "button", disabled: !may, title: why, on: { click: run } },
      icon(sign),
      h("span", {}, text),
    );
  const isOff = flow.state === "paused" || flow.state === "stopped" || flow.state === "failed_over";
  return h(
    "div",
    { class: "actions", role: "group", "aria-label": "Actions" },
    isOff ? button("play", "Resume", () => resume(flow)) : button("pause", "Pause", () => pause(flow)),
    flow.state === "stopped" || flow.state === "failed_over" ? null : button("stop", "Stop", () => stop(flow)),
    isOff ? null : button("restart", "Restart", () => restart(flow)),
  );
}

function pause(flow) {
  return confirm({
    title: `Pause ${flow.flow}?`,
    text: "Copying stops; what is in flight is finished. Groups and heartbeats go on. Until it is resumed, the loss grows.",
    verb: "Pause",
    run: () => api.post(api.of(flow.flow, "pause")),
  });
}

function resume(flow) {
  const isOver = flow.state === "failed_over";
  return confirm({
    title: `Resume ${flow.flow}?`,
    text: isOver
      ? [
          "This flow was failed over: its consumers use the target.",
          "If it copies again, records of the source reach the target behind what applications have written there since.",
        ]
      : "It copies again from where it was. Partitions that had stopped on an error try again.",
    verb: "Resume",
    word: isOver ? flow.flow : "",
    danger: isOver,
    run: () => api.post(api.of(flow.flow, "resume", { failed_over: isOver ? "true" : "" })),
  });
}

function stop(flow) {
  return confirm({
    title: `Stop ${flow.flow}?`,
    text: "Copying and the sync of groups end, also after a restart of the mirror, until it is resumed. No group is moved.",
    verb: "Stop",
    word: flow.flow,
    danger: true,
    run: () => api.post(api.of(flow.flow, "stop")),
  });
}

function restart(flow) {
  return confirm({
    title: `Restart the copiers of ${flow.flow}?`,
    text: "They are replaced one by one. Each partition stands still for a moment; nothing is lost or copied twice.",
    verb: "Restart",
    run: () => api.post(api.of(flow.flow, "restart")),
  });
}

/** Records, bytes and age of what a loss of the source would cost, in one line. */
export function lossText(rpo) {
  if (rpo.records === null) {
    return rpo.least_records ? `at least ${format.counted(rpo.least_records, "record")}` : "not known";
  }
  return rpo.records ? format.counted(rpo.records, "record") : "nothing";
}

/** Size and age of the loss, in one line; `left`: how many records the target has refused. */
export function lossDetail(rpo, left = 0) {
  if (rpo.records === null) {
    return rpo.least_seconds
      ? `the oldest at least ${format.age(rpo.least_seconds)} old`
      : "the source does not say where it ends";
  }
  if (!rpo.records) {
    const besides = left ? `, besides ${format.counted(left, "record")} that it refused` : "";
    return `every record that the source had is on the target${besides}`;
  }
  return [
    rpo.bytes === null ? null : format.size(rpo.bytes),
    rpo.seconds === null ? null : `the oldest ${format.duration(rpo.seconds)} old`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** As of when a loss is known: what was written since then comes on top. */
export function asOf(rpo) {
  return rpo.as_of_seconds === null ? "" : `as of ${format.age(rpo.as_of_seconds)} ago`;
}

/** The worst loss of the last minutes, in one line. */
export function worstText(worst) {
  if (worst.records === null && worst.seconds === null) return "worst: not known";
  const parts = [
    worst.records === null ? null : format.counted(worst.records, "record"),
    worst.seconds === null ? null : format.duration(worst.seconds),
  ];
  return `worst in 15 min: ${parts.filter(Boolean).join(", ")}`;
}

/** How long ago the last proof was, in one line. */
export function proofText(proof, now) {
  if (!proof) return "continuous proof is off";
  if (proof.trouble) return `the last round failed: ${proof.trouble}`;
  if (proof.at_ms === null) return "no round has ended yet";
  return `${format.age((now - proof.at_ms) / 1000)} ago`;
}

/** A list of events, the newest first. */
export function eventList(events, { withFlow = true } = {}) {
  if (!events.length) return h("p", { class: "soft" }, "Nothing has happened.");
  return h(
    "ol",
    { class: "events" },
    events.map((event) =>
      h(
        "li",
        { class: event.severity, key: `${event.at_ms} ${event.kind} ${event.flow} ${event.text}` },
        time(event.at_ms),
        severity(event.severity),
        withFlow && event.flow ? h("a", { class: "event-flow", href: path("flows", event.flow) }, event.flow) : null,
        h("span", { class: "event-text" }, event.text),
      ),
    ),
  );
}

/** The sign of a severity, with its word for screen readers. */
export function severity(name) {
  const health = { error: "trouble", warning: "attention" }[name] ?? "info";
  return h(
    "span",
    { class: `severity ${health}`, title: name },
    icon(health),
    h("span", { class: "visually-hidden" }, name),
  );
}

/** The colour of a state of a partition or topic. */
export function stateHealth(state) {
  if (state === "failed" || state === "quarantined") return "trouble";
  if (state === "copying" || state === "watching") return "ok";
  if (state === "paused" || state === "stopped") return "off";
  return "attention";
}
