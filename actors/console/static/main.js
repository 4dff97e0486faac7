/** Starts the page: who asks, which page an address has, and when it is drawn. */

import * as api from "./base/api.js";
import { announce, fill, h } from "./base/dom.js";
import { here, match, path } from "./base/router.js";
import { Store } from "./base/store.js";
import { sideBar, skipButton, staleNotice, topBar } from "./frame.js";
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
    this.isMenuOpen = false; // on a phone
    this.frame = 0;
    this.store = new Store((kind) => this.#changed(kind));
  }

  /** Whether the user may do what needs this role. */
  may(role) {
    return ROLES.indexOf(this.session?.role ?? "view") >= ROLES.indexOf(role);
  }

  /** Why the user may not do what needs this role; empty if it is allowed. */
  whyNot(role) {
    return this.may(role) ? "" : `Needs the role ${role}`;
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
    this.isMenuOpen = false;
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
      isBare ? null : staleNotice(this.store),
      this.page.view(),
    );
    fill(this.root, isBare ? main : [skipButton(), topBar(this), sideBar(this), main]);
    if (this.isNew) showTab();
    this.isNew = false;
  }
}

/** Scrolls to the tab of the page: on a phone not all of them fit. */
function showTab() {
  const tabs = document.querySelector(".tabs");
  const tab = tabs?.querySelector("[aria-current]");
  if (tab) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - 20;
}

new App().start();
