/** The settings of a flow: change them, look at the difference, then apply; and what differs in topics, configs and ACLs. */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { confirm } from "../parts/dialog.js";
import { diff } from "../parts/diff.js";
import { filterField, filterRow } from "../parts/filters.js";
import { button, MOST_ROWS, note, notShown, panel, reasonsPanel } from "../parts/parts.js";

const FIXED = /^(name|connector\.class|(source|target)\.cluster\..*)$/; // of a cluster, or of what the flow is

export class SettingsPage extends FlowTab {
  static tab = "settings";

  constructor(app, params) {
    super(app, params);
    this.changes = new Map(); // name: new value, null removes it
    this.q = "";
    this.name = ""; // of the setting that is to be added
    this.settings = this.addLoader(async (signal) => (await api.get(api.of(this.flow, "settings"), signal)).settings);
    this.plan = this.addFlowLoader("plan", { atStart: false });
  }

  body() {
    return [
      this.settings.view((settings) => this.#editor(settings)),
      this.settings.isAnswered ? this.#differences() : null,
    ];
  }

  #differences() {
    return panel(
      "Topics, configs and ACLs of the copies",
      { tools: this.plan.button("Compare now") },
      this.plan.view(planView, {
        before: note("What raymirror plan says: how the copies differ from their sources. It changes nothing."),
      }),
    );
  }

  #set(name, value) {
    const before = this.settings.found[name];
    if (value === before || (value === null && before === undefined)) this.changes.delete(name);
    else this.changes.set(name, value);
    this.app.update();
  }

  #editor(settings) {
    const count = this.changes.size;
    const names = [...new Set([...Object.keys(settings), ...this.changes.keys()])].sort();
    const filter = (value) => {
      this.q = value;
      this.app.update();
    };
    const review = button(
      count ? `Review ${format.counted(count, "change")}` : "No change yet",
      () => this.#review(settings),
      { kind: "primary", isOff: !count },
    );
    return panel(
      "Settings",
      { tools: review },
      note(
        "As MM2 would give them to its connectors. Settings that may hold a password are not shown. A change is written into the file of the mirror, then applied.",
      ),
      filterRow(filterField(this.q, "Setting", filter)),
      h(
        "div",
        { class: "settings" },
        names.filter((name) => name.includes(this.q)).map((name) => this.#row(name, settings[name])),
      ),
      this.app.may("admin") ? this.#more(settings) : note("To change them you need the role admin."),
    );
  }

  #row(name, present) {
    const isChanged = this.changes.has(name);
    const value = isChanged ? this.changes.get(name) : present;
    const isGone = value === null;
    const isOpen = this.app.may("admin") && !FIXED.test(name);
    const id = `setting-${name}`;
    const undoOrRemove = () => this.#set(name, isChanged ? (present ?? null) : null);
    return h(
      "div",
      { class: isChanged ? "setting changed" : "setting", key: name },
      h("label", { for: id }, name),
      h("input", {
        class: "input",
        id,
        value: isGone ? "" : (value ?? ""),
        placeholder: isGone ? "removed: the default holds" : "",
        readonly: !isOpen,
        spellcheck: "false",
        on: { input: (event) => this.#set(name, event.target.value) },
      }),
      isOpen ? button(isChanged ? "Undo" : "Remove", undoOrRemove, { kind: "small" }) : null,
    );
  }

  /** A field for a setting that the flow does not have. */
  #more(settings) {
    const add = (event) => {
      event.preventDefault();
      if (this.name && !(this.name in settings)) this.changes.set(this.name, "");
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
      button("Add"),
    );
  }

  /** Shows the difference, and applies it. */
  async #review(settings) {
    const changes = [...this.changes];
    const isDone = await confirm({
      title: `Apply ${format.counted(changes.length, "change")} to ${this.flow}?`,
      text: "They are written into the file of the mirror. Copiers are replaced one by one if they must be.",
      more: () => diff(changes.map(([key, value]) => ({ key, before: settings[key] ?? null, after: value }))),
      verb: "Apply",
      wide: true,
      run: () => api.patch(api.of(this.flow, "settings"), { changes: Object.fromEntries(changes) }),
    });
    if (!isDone) return;
    this.changes.clear();
    this.settings.refresh();
  }
}

/** What a plan would change, and what of it is not known or left as it is. */
export function planView({ plan, took_seconds: tookSeconds }) {
  const changes = plan.changes ?? [];
  const conflicts = (plan.conflicts ?? []).map((one) => [`${one.target || one.topic}: ${one.what}`, ""]);
  const besides = [
    reasonsPanel("Could not be read", Object.entries(plan.unread ?? {}), "trouble"),
    reasonsPanel("Differs, and is left to you", conflicts, "attention"),
  ].filter(Boolean);
  if (!changes.length) {
    const nothing = besides.length ? "Nothing to change." : "Nothing differs.";
    const asked = `Asked ${format.counted(plan.topics ?? 0, "topic")} in ${format.duration(tookSeconds)}.`;
    return [h("p", {}, `${nothing} ${asked}`), besides];
  }
  return [
    besides,
    h("p", {}, `${format.counted(changes.length, "change")} to make. To make them: `, h("code", {}, "raymirror apply")),
    diff(changes.slice(0, MOST_ROWS).map(diffRow)),
    notShown(changes.length, "change"),
  ];
}

function diffRow(one) {
  return {
    key: [one.target ?? one.topic, one.name].filter(Boolean).join(" "),
    before: one.before ?? null,
    after: one.value ?? one.change,
    note: one.why,
  };
}
