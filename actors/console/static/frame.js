/** The frame around all pages: the bar at the top, the list of pages, and what says that all of it may be old. */

import { h } from "./base/dom.js";
import * as format from "./base/format.js";
import { here, path } from "./base/router.js";
import { showKeys, turnTheme } from "./keys.js";
import { icon } from "./parts/icons.js";
import { badge, button, notice } from "./parts/parts.js";

const HEALTH = { ok: "All is well", attention: "Look at it", trouble: "Trouble", off: "Off" };
const LIVE = {
  live: ["ok", "live"],
  loading: ["attention", "loading"],
  lost: ["attention", "connecting"],
  paused: ["off", "paused"],
  ended: ["trouble", "ended"],
  refused: ["trouble", "logged out"],
};

/** Says that what is shown may be old: nobody must act on it as if it were live. */
export function staleNotice(store) {
  const since = store.staleSince();
  if (since === null) return null;
  const why =
    store.state === "ended"
      ? `The mirror has ended${store.why ? `: ${store.why}` : ""}.`
      : "The server does not answer; the page tries again by itself.";
  return h(
    "div",
    { class: "stale", role: "alert", key: "stale" },
    notice("trouble", h("b", {}, `What you see is from ${format.clock(since)}. `), why),
  );
}

/** What leads past the frame, for who has only keys. */
export function skipButton() {
  const jump = () => document.getElementById("main").focus();
  return h("button", { type: "button", class: "skip", key: "skip", on: { click: jump } }, "Skip to the content");
}

/** The bar at the top: the mirror, its health, whether the page is live, keys, theme and user. */
export function topBar(app) {
  const { mirror } = app.store;
  return h(
    "header",
    { class: "top", key: "top" },
    menuButton(app),
    h(
      "a",
      { class: "brand", href: path() },
      h("img", { src: "/console/icon.svg", alt: "", width: 22, height: 22 }),
      h("span", {}, mirror?.mirror ?? "raymirror"),
    ),
    mirror ? h("span", { class: "top-health" }, badge(mirror.health, HEALTH[mirror.health])) : null,
    h("span", { class: "grow" }),
    liveState(app.store),
    signButton("keys", "Keys", "Keys (?)", showKeys, "wide-only"),
    signButton("theme", "Dark or light", "Dark or light (t)", turnTheme),
    userMenu(app),
  );
}

function menuButton(app) {
  const toggle = () => {
    app.isMenuOpen = !app.isMenuOpen;
    app.update();
  };
  return h(
    "button",
    {
      type: "button",
      class: "plain menu-button",
      "aria-expanded": String(app.isMenuOpen),
      "aria-controls": "side",
      "aria-label": "Menu",
      on: { click: toggle },
    },
    icon("menu"),
  );
}

/** A button of one sign. */
function signButton(sign, label, title, run, kind = "") {
  return h(
    "button",
    { type: "button", class: kind ? `plain ${kind}` : "plain", "aria-label": label, title, on: { click: run } },
    icon(sign),
  );
}

function liveState({ state, mirror, why }) {
  const [health, text] = state === "live" && !mirror ? LIVE.loading : (LIVE[state] ?? LIVE.lost);
  return h("span", { class: `live ${health}`, title: why || null }, h("i", { class: "dot" }), h("span", {}, text));
}

function userMenu(app) {
  const { session } = app;
  if (!session?.login) return null;
  return h(
    "details",
    { class: "user", key: "user" },
    h(
      "summary",
      { class: "plain", "aria-label": `User ${session.user}` },
      icon("user"),
      h("span", { class: "wide-only" }, session.user),
    ),
    h(
      "div",
      { class: "user-menu" },
      h("p", {}, h("b", {}, session.user), h("br"), h("span", { class: "soft" }, `role ${session.role}`)),
      button("Log out", () => app.leave()),
    ),
  );
}

/** The list of pages and flows; on a phone it is a menu. */
export function sideBar(app) {
  const { names } = here();
  const link = (parts, sign, text) =>
    h(
      "a",
      { href: path(...parts), "aria-current": names.join("/") === parts.join("/") ? "page" : null },
      icon(sign),
      h("span", {}, text),
    );
  return h(
    "nav",
    { class: app.isMenuOpen ? "side open" : "side", id: "side", "aria-label": "Pages", key: "side" },
    link([], "overview", "Overview"),
    link(["events"], "events", "Events"),
    link(["audit"], "audit", "Audit"),
    link(["config"], "config", "Configuration"),
    h("h2", {}, "Flows"),
    [...app.store.flows.values()].map((flow) => flowEntry(flow, names[0] === "flows" && names[1] === flow.flow)),
    h("p", { class: "side-foot soft" }, `raymirror ${app.session?.version ?? ""}`),
  );
}

function flowEntry({ flow, health }, isPresent) {
  return h(
    "a",
    { href: path("flows", flow), "aria-current": isPresent ? "page" : null, key: flow, class: health },
    icon(health),
    h("span", {}, format.flow(flow)),
    h("span", { class: "visually-hidden" }, health),
  );
}
