/** Starts the page: who asks, the frame around all pages, the address, keys. */

import * as api from "./api.js";
import { Dialog } from "./dialog.js";
import { announce, fill, h } from "./dom.js";
import * as format from "./format.js";
import { icon } from "./icons.js";
import { keys } from "./keys.js";
import { AuditPage } from "./pages/audit.js";
import { ConfigPage } from "./pages/config.js";
import { EventsPage } from "./pages/events.js";
import { FailoverPage } from "./pages/failover.js";
import { FlowPage } from "./pages/flow.js";
import { GroupsPage } from "./pages/groups.js";
import { LoginPage } from "./pages/login.js";
import { OverviewPage } from "./pages/overview.js";
import { PartitionPage } from "./pages/partition.js";
import { PartitionsPage } from "./pages/partitions.js";
import { ProofPage } from "./pages/proof.js";
import { QuarantinePage } from "./pages/quarantine.js";
import { SettingsPage } from "./pages/settings.js";
import { TopicPage } from "./pages/topic.js";
import { TopicsPage } from "./pages/topics.js";
import { badge } from "./parts.js";
import { here, match, path } from "./router.js";
import { Store } from "./store.js";

const ROUTES = [
  [[], OverviewPage],
  [["flows", ":flow"], FlowPage],
  [["flows", ":flow", "topics"], TopicsPage],
  [["flows", ":flow", "topics", ":topic"], TopicPage],
  [["flows", ":flow", "partitions"], PartitionsPage],
  [["flows", ":flow", "partitions", ":topic", ":partition"], PartitionPage],
  [["flows", ":flow", "groups"], GroupsPage],
  [["flows", ":flow", "proof"], ProofPage],
  [["flows", ":flow", "quarantine"], QuarantinePage],
  [["flows", ":flow", "settings"], SettingsPage],
  [["flows", ":flow", "failover"], FailoverPage],
  [["events"], EventsPage],
  [["audit"], AuditPage],
  [["config"], ConfigPage],
];
const ROLES = ["view", "operate", "admin"];
const TICK_MS = 1_000;

/** What stands at an address that no page has. */
class NowherePage {
  constructor(address) {
    this.address = address;
  }

  title() {
    return "No such page";
  }

  view() {
    return [
      h("h1", { class: "verdict" }, "No such page"),
      h("p", {}, `The console has no page ${this.address}. `, h("a", { href: path() }, "Go to the overview")),
    ];
  }
}

class App {
  constructor() {
    this.root = document.getElementById("app");
    this.session = null;
    this.page = null;
    this.isOpen = false; // the menu, on a phone
    this.frame = 0;
    this.store = new Store((kind) => this.#changed(kind));
  }

  /** Whether the user may do what needs this role. */
  may(role) {
    return ROLES.indexOf(this.session?.role ?? "view") >= ROLES.indexOf(role);
  }

  /** Draws the page soon; many calls draw it once. */
  update() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
  }

  async start() {
    api.onLost(() => this.#lost());
    addEventListener("hashchange", () => this.#route());
    keys(this);
    setInterval(() => document.hidden || this.update(), TICK_MS);
    await this.#begin();
  }

  /** Finds out who asks; a one-time token in the address is used first, and removed from it. */
  async #begin() {
    const { names } = here();
    let refused = "";
    try {
      if (names[0] === "enter") {
        history.replaceState(null, "", "#/");
        this.session = await api.enter({ once: names[1] ?? "" });
      } else this.session = await api.session();
    } catch (error) {
      refused = error.message;
      this.session = await api.session().catch(() => null);
    }
    if (this.session?.user) this.entered();
    else this.#show(new LoginPage(this, { refused, entered: (session) => this.entered(session) }));
  }

  /** Shows the mirror, after a login. */
  entered(session = this.session) {
    this.session = session;
    this.store.stop();
    this.store.start();
    this.#route();
  }

  async leave() {
    await api.leave();
    this.#lost();
  }

  #lost() {
    this.store.stop();
    if (this.page instanceof LoginPage) return;
    this.session = { ...this.session, user: null };
    this.#show(new LoginPage(this, { refused: "", entered: (session) => this.entered(session) }));
  }

  #route() {
    this.isOpen = false;
    if (!this.session?.user) return;
    const { names, query } = here();
    if (names[0] === "enter") {
      this.#begin();
      return;
    }
    const found = match(ROUTES, names);
    this.#show(found ? new found.page(this, found.params, query) : new NowherePage(location.hash));
    scrollTo(0, 0);
  }

  #show(page) {
    this.page?.stop?.();
    this.page = page;
    document.title = `${page.title()} – raymirror`;
    announce(page.title());
    page.start?.();
    this.isNew = true;
    this.update();
  }

  #changed(kind) {
    if (kind === "state" && this.store.state === "refused") {
      this.#lost();
      return;
    }
    this.page?.changed?.(kind);
    this.update();
  }

  #draw() {
    if (!this.page) return;
    const isBare = this.page instanceof LoginPage;
    this.root.classList.toggle("bare", isBare);
    const main = h(
      "main",
      { id: "main", tabindex: "-1", class: this.page.constructor.name, key: "main" },
      this.#stale(),
      this.page.view(),
    );
    fill(this.root, isBare ? main : [this.#skip(), this.#top(), this.#side(), main]);
    if (!this.isNew) return;
    this.isNew = false;
    const tabs = document.querySelector(".tabs");
    const tab = tabs?.querySelector("[aria-current]");
    if (tab) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - 20; // on a phone not all of them fit
  }

  /** Says that what is shown may be old: nobody must act on it as if it were live. */
  #stale() {
    const since = this.store.staleSince();
    if (since === null || this.page instanceof LoginPage) return null;
    const why =
      this.store.state === "ended"
        ? `The mirror has ended${this.store.why ? `: ${this.store.why}` : ""}.`
        : "The server does not answer; the page tries again by itself.";
    return h(
      "p",
      { class: "notice trouble stale", role: "alert", key: "stale" },
      icon("trouble"),
      h("span", {}, h("b", {}, `What you see is from ${format.clock(since)}. `), why),
    );
  }

  #skip() {
    const jump = () => document.getElementById("main").focus();
    return h("button", { type: "button", class: "skip", key: "skip", on: { click: jump } }, "Skip to the content");
  }

  #top() {
    const { mirror } = this.store;
    const toggle = () => ((this.isOpen = !this.isOpen), this.update());
    return h(
      "header",
      { class: "top", key: "top" },
      h(
        "button",
        {
          type: "button",
          class: "plain menu-button",
          "aria-expanded": String(this.isOpen),
          "aria-controls": "side",
          "aria-label": "Menu",
          on: { click: toggle },
        },
        icon("menu"),
      ),
      h(
        "a",
        { class: "brand", href: path() },
        h("img", { src: "/console/icon.svg", alt: "", width: 22, height: 22 }),
        h("span", {}, mirror?.mirror ?? "raymirror"),
      ),
      mirror ? h("span", { class: "top-health" }, badge(mirror.health, HEALTH[mirror.health])) : null,
      h("span", { class: "grow" }),
      this.#state(),
      h(
        "button",
        {
          type: "button",
          class: "plain wide-only",
          "aria-label": "Keys",
          title: "Keys (?)",
          on: { click: () => this.showKeys() },
        },
        icon("keys"),
      ),
      h(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-label": "Dark or light",
          title: "Dark or light (t)",
          on: { click: () => this.turnTheme() },
        },
        icon("theme"),
      ),
      this.#user(),
    );
  }

  #state() {
    const { state, mirror } = this.store;
    const [health, text] = state === "live" && !mirror ? LIVE.loading : (LIVE[state] ?? LIVE.lost);
    return h(
      "span",
      { class: `live ${health}`, title: this.store.why || null },
      h("i", { class: "dot" }),
      h("span", {}, text),
    );
  }

  #user() {
    const { session } = this;
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
        h("button", { type: "button", class: "button", on: { click: () => this.leave() } }, "Log out"),
      ),
    );
  }

  #side() {
    const { names } = here();
    const flows = [...this.store.flows.values()];
    const link = (parts, sign, text) =>
      h(
        "a",
        { href: path(...parts), "aria-current": names.join("/") === parts.join("/") ? "page" : null },
        icon(sign),
        h("span", {}, text),
      );
    return h(
      "nav",
      { class: this.isOpen ? "side open" : "side", id: "side", "aria-label": "Pages", key: "side" },
      link([], "overview", "Overview"),
      link(["events"], "events", "Events"),
      link(["audit"], "audit", "Audit"),
      link(["config"], "config", "Configuration"),
      h("h2", {}, "Flows"),
      flows.map((flow) =>
        h(
          "a",
          {
            href: path("flows", flow.flow),
            "aria-current": names[0] === "flows" && names[1] === flow.flow ? "page" : null,
            key: flow.flow,
            class: flow.health,
          },
          icon(flow.health),
          h("span", {}, flow.flow.replace("->", " → ")),
          h("span", { class: "visually-hidden" }, flow.health),
        ),
      ),
      h("p", { class: "side-foot soft" }, `raymirror ${this.session?.version ?? ""}`),
    );
  }

  /** Changes to the other theme, and remembers it. */
  turnTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem("raymirror-theme", root.dataset.theme);
    } catch {
      // A browser that keeps nothing forgets it with the page.
    }
  }

  /** Shows which keys there are. */
  showKeys() {
    const rows = [
      ["g o", "overview"],
      ["g e", "events"],
      ["g a", "audit"],
      ["g c", "configuration"],
      ["g 1 … 9", "a flow, in order"],
      ["/", "to the filter"],
      ["↑ ↓ Enter", "in a table: move, open"],
      ["← →", "in a chart: read values"],
      ["t", "dark or light"],
      ["?", "this list"],
      ["Esc", "close"],
    ];
    const dialog = new Dialog({
      label: "Keys",
      view: () => [
        h("h2", {}, "Keys"),
        h(
          "dl",
          { class: "keys" },
          rows.map(([key, text]) =>
            h(
              "div",
              {},
              h(
                "dt",
                {},
                key.split(" ").map((one) => h("kbd", {}, one)),
              ),
              h("dd", {}, text),
            ),
          ),
        ),
        h(
          "div",
          { class: "dialog-buttons" },
          h("button", { type: "button", class: "button primary", on: { click: () => dialog.close() } }, "Close"),
        ),
      ],
    });
    dialog.open();
  }
}

const HEALTH = { ok: "All is well", attention: "Look at it", trouble: "Trouble", off: "Off" };
const LIVE = {
  live: ["ok", "live"],
  loading: ["attention", "loading"],
  lost: ["attention", "connecting"],
  paused: ["off", "paused"],
  ended: ["trouble", "ended"],
  refused: ["trouble", "logged out"],
};

new App().start();
