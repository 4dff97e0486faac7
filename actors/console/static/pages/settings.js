/** The settings of a flow: change them, look at the difference, then apply; and what differs in topics, configs and ACLs. */

import * as api from "../api.js";
import { Dialog } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { flowHead, loading, panel, refusal } from "../parts.js";
import { named } from "./groups.js";

const MOST_ROWS = 200;
const FIXED = /^(name|connector\.class|(source|target)\.cluster\..*)$/; // of a cluster, or of what the flow is

export class SettingsPage {
  constructor(app, { flow }) {
    this.app = app;
    this.flow = flow;
    this.settings = null;
    this.changes = new Map(); // name: new value, null removes it
    this.refused = "";
    this.plan = null;
    this.asking = false;
    this.planRefused = "";
    this.q = "";
    this.name = "";
  }

  title() {
    return `Settings of ${this.flow}`;
  }

  start() {
    this.abort = new AbortController();
    this.#load();
  }

  stop() {
    this.abort.abort();
  }

  async #load() {
    try {
      this.settings = (await api.get(api.of(this.flow, "settings"), this.abort.signal)).settings;
      this.refused = "";
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.refused = error.message;
    }
    this.app.update();
  }

  async #ask() {
    this.asking = true;
    this.app.update();
    try {
      this.plan = await api.get(api.of(this.flow, "plan"), this.abort.signal);
      this.planRefused = "";
    } catch (error) {
      this.planRefused = error.message;
    }
    this.asking = false;
    this.app.update();
  }

  view() {
    return [
      flowHead(this.app, this.flow, "settings"),
      this.refused ? refusal(this.refused) : null,
      this.settings ? this.#editor() : this.refused ? null : loading(),
      panel(
        "Topics, configs and ACLs of the copies",
        {
          tools: h(
            "button",
            { type: "button", class: "button", disabled: this.asking, on: { click: () => this.#ask() } },
            this.asking ? "Asking both clusters…" : "Compare now",
          ),
        },
        this.planRefused ? refusal(this.planRefused) : planView(this.plan),
      ),
    ];
  }

  #set(name, value) {
    const before = this.settings[name];
    if (value === before || (value === null && before === undefined)) this.changes.delete(name);
    else this.changes.set(name, value);
    this.app.update();
  }

  #editor() {
    const may = this.app.may("admin");
    const names = [...new Set([...Object.keys(this.settings), ...this.changes.keys()])]
      .sort()
      .filter((name) => name.includes(this.q));
    const filter = (event) => {
      this.q = event.target.value;
      this.app.update();
    };
    return panel(
      "Settings",
      {
        tools: h(
          "button",
          {
            type: "button",
            class: "button primary",
            disabled: !this.changes.size,
            on: { click: () => this.#review() },
          },
          this.changes.size ? `Review ${format.counted(this.changes.size, "change")}` : "No change yet",
        ),
      },
      h(
        "p",
        { class: "soft" },
        "As MM2 would give them to its connectors. Settings that may hold a password are not shown. A change is written into the file of the mirror, then applied.",
      ),
      h(
        "div",
        { class: "filters" },
        h(
          "label",
          { class: "filter" },
          h("span", {}, "Setting"),
          h("input", { class: "input", type: "search", value: this.q, "data-filter": "", on: { input: filter } }),
        ),
      ),
      h(
        "div",
        { class: "settings" },
        names.map((name) => this.#row(name, may)),
      ),
      may ? this.#more() : h("p", { class: "soft" }, "To change them you need the role admin."),
    );
  }

  #row(name, may) {
    const isChanged = this.changes.has(name);
    const value = isChanged ? this.changes.get(name) : this.settings[name];
    const isGone = value === null;
    may &&= !FIXED.test(name);
    const id = `setting-${name}`;
    return h(
      "div",
      { class: isChanged ? "setting changed" : "setting", key: name },
      h("label", { for: id }, name),
      h("input", {
        class: "input",
        id,
        value: isGone ? "" : (value ?? ""),
        placeholder: isGone ? "removed: the default holds" : "",
        readonly: !may,
        spellcheck: "false",
        on: { input: (event) => this.#set(name, event.target.value) },
      }),
      may
        ? h(
            "button",
            {
              type: "button",
              class: "button small",
              on: { click: () => this.#set(name, isChanged ? (this.settings[name] ?? null) : null) },
            },
            isChanged ? "Undo" : "Remove",
          )
        : null,
    );
  }

  #more() {
    const add = (event) => {
      event.preventDefault();
      if (this.name && !(this.name in this.settings)) this.changes.set(this.name, "");
      this.name = "";
      this.app.update();
    };
    const typed = (event) => {
      this.name = event.target.value.trim();
    };
    return h(
      "form",
      { class: "add-setting", on: { submit: add } },
      h(
        "label",
        { class: "filter" },
        h("span", {}, "Another setting"),
        h("input", {
          class: "input",
          value: this.name,
          placeholder: "e.g. topics.exclude",
          spellcheck: "false",
          on: { input: typed },
        }),
      ),
      h("button", { type: "submit", class: "button" }, "Add"),
    );
  }

  /** Shows the difference, and applies it. */
  async #review() {
    let busy = false;
    let refused = "";
    const apply = async () => {
      busy = true;
      dialog.update();
      try {
        await api.patch(api.of(this.flow, "settings"), { changes: Object.fromEntries(this.changes) });
        dialog.close(true);
      } catch (error) {
        busy = false;
        refused = error.message;
        dialog.update();
      }
    };
    const dialog = new Dialog({
      label: "Changes",
      wide: true,
      view: () => [
        h("h2", {}, `Apply ${format.counted(this.changes.size, "change")} to ${this.flow}?`),
        h("p", {}, "They are written into the file of the mirror. Copiers are replaced one by one if they must be."),
        diff([...this.changes].map(([key, value]) => ({ key, before: this.settings[key] ?? null, after: value }))),
        refused ? h("p", { class: "refused", role: "alert" }, refused) : null,
        h(
          "div",
          { class: "dialog-buttons" },
          h("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, "Cancel"),
          h(
            "button",
            { type: "button", class: "button primary", disabled: busy, on: { click: apply } },
            busy ? "Working…" : "Apply",
          ),
        ),
      ],
    });
    if (await dialog.open()) {
      this.changes.clear();
      this.#load();
    }
  }
}

/** Lines that go and lines that come: `{key, before, after, note}`; null: not set. */
export function diff(rows) {
  return h(
    "div",
    { class: "diff", role: "list" },
    rows.map((row) =>
      h(
        "div",
        { class: "diff-entry", role: "listitem", key: row.key },
        row.before === null
          ? null
          : h(
              "div",
              { class: "diff-line gone" },
              h("span", { class: "sign", "aria-label": "before" }, "−"),
              h("code", {}, `${row.key} = ${row.before}`),
            ),
        row.after === null
          ? null
          : h(
              "div",
              { class: "diff-line come" },
              h("span", { class: "sign", "aria-label": "after" }, "+"),
              h("code", {}, `${row.key} = ${row.after}`),
            ),
        row.note ? h("div", { class: "diff-note" }, row.note) : null,
      ),
    ),
  );
}

/** What a plan would change, and what of it is not known or left as it is. */
export function planView(found) {
  if (!found)
    return h(
      "p",
      { class: "soft" },
      "What raymirror plan says: how the copies differ from their sources. It changes nothing.",
    );
  const { plan } = found;
  const changes = plan.changes ?? [];
  const conflicts = (plan.conflicts ?? []).slice(0, MOST_ROWS).map((one) => [`${one.target || one.topic}: ${one.what}`, ""]);
  const besides = [
    named("Could not be read", plan.unread ?? {}, "trouble"),
    named("Differs, and is left to you", Object.fromEntries(conflicts), "attention"),
  ].filter(Boolean);
  const asked = `Asked ${format.counted(plan.topics ?? 0, "topic")} in ${format.duration(found.took_seconds)}.`;
  if (!changes.length)
    return [h("p", {}, besides.length ? `Nothing to change. ${asked}` : `Nothing differs. ${asked}`), besides];
  return [
    besides,
    h("p", {}, `${format.counted(changes.length, "change")} to make. To make them: `, h("code", {}, "raymirror apply")),
    diff(
      changes.slice(0, MOST_ROWS).map((one) => ({
        key: [one.target ?? one.topic, one.name].filter(Boolean).join(" "),
        before: one.before ?? null,
        after: one.value ?? one.change,
        note: one.why,
      })),
    ),
  ];
}
