/** The head of each page of a flow: its name and state, what can be done to it as a whole, and its pages. */

import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import { path } from "../base/router.js";
import { confirm } from "../parts/dialog.js";
import { actions, button, stateBadge } from "../parts/parts.js";

const TABS = {
  "": "Now",
  topics: "Topics",
  partitions: "Partitions",
  groups: "Groups",
  proof: "Proof",
  quarantine: "Quarantine",
  settings: "Settings",
  failover: "Failover",
};

/** The name of a tab, as a page has it in its title. */
export function tabTitle(tab) {
  return TABS[tab];
}

/** Draws the head of a flow; `present`: the tab of the page. */
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
      flow ? flow.sentence : app.store.mirror ? "The mirror has no flow of this name." : "Loading…",
    ),
    h(
      "nav",
      { class: "tabs", "aria-label": `Pages of ${name}` },
      Object.entries(TABS).map(([tab, title]) =>
        h(
          "a",
          {
            href: tab ? path("flows", name, tab) : path("flows", name),
            "aria-current": tab === present ? "page" : null,
          },
          title,
        ),
      ),
    ),
  ];
}

function flowActions(app, flow) {
  const why = app.whyNot("operate");
  const act = (sign, text, run) => button(text, () => run(flow), { sign, why });
  const isOver = flow.state === "failed_over";
  const isOff = isOver || flow.state === "paused" || flow.state === "stopped";
  return actions(
    "Actions",
    isOff ? act("play", "Resume", resume) : act("pause", "Pause", pause),
    isOver || flow.state === "stopped" ? null : act("stop", "Stop", stop),
    isOff ? null : act("restart", "Restart", restart),
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
