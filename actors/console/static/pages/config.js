/** The configuration: what the file on disk would change in the running mirror, then a reload. */

import * as api from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { facts, loading, panel, refusal } from "../parts.js";
import { path } from "../router.js";
import { diff } from "./settings.js";

const REFRESH_MS = 10_000;

export class ConfigPage {
  constructor(app) {
    this.app = app;
    this.plan = null;
    this.refused = "";
  }

  title() {
    return "Configuration";
  }

  start() {
    this.abort = new AbortController();
    this.#load();
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  async #load() {
    const { signal } = this.abort;
    clearTimeout(this.timer);
    try {
      if (!document.hidden) this.plan = await api.get("/plan", signal);
      this.refused = "";
    } catch (error) {
      if (signal.aborted) return;
      this.refused = error.message;
    }
    this.app.update();
    this.timer = setTimeout(() => this.#load(), REFRESH_MS);
  }

  #apply() {
    const { plan } = this;
    return confirm({
      title: "Apply the file on disk?",
      text: [
        `${format.counted(changed(plan).length, "change")} to the running mirror. Copiers are replaced one by one if they must be.`,
        "If the file is edited again before, this is refused.",
      ],
      verb: "Apply",
      run: async () => {
        await api.post("/reload", { new: plan.new });
        this.#load();
      },
    });
  }

  view() {
    const { plan } = this;
    const flows = [...this.app.store.flows.keys()];
    return [
      h("div", { class: "page-head" }, h("h1", {}, "Configuration")),
      h(
        "p",
        { class: "sentence" },
        "The file is the only source of settings. Edit it, look at the difference here, then apply it.",
      ),
      this.refused ? refusal(this.refused) : null,
      plan ? this.#plan(plan) : this.refused ? null : loading(),
      panel(
        "Settings of a flow",
        {},
        h(
          "ul",
          { class: "links" },
          flows.map((flow) =>
            h("li", {}, h("a", { href: path("flows", flow, "settings") }, flow.replace("->", " → "))),
          ),
        ),
      ),
    ];
  }

  #plan(plan) {
    const changes = changed(plan);
    const may = this.app.may("admin");
    const isFine = changes.length > 0 && !plan.refused.length && !plan.error;
    return [
      panel(
        "File",
        {},
        facts([
          ["Path", plan.config_path],
          ["Running", plan.running.slice(0, 16), plan.running],
          ["On disk", plan.new ? plan.new.slice(0, 16) : "–", plan.new],
        ]),
      ),
      plan.error ? h("p", { class: "notice trouble" }, icon("trouble"), h("span", {}, plan.error)) : null,
      plan.refused.map((why) =>
        h(
          "p",
          { class: "notice trouble" },
          icon("trouble"),
          h("span", {}, `Cannot be applied while the mirror runs: ${why}`),
        ),
      ),
      panel(
        "Difference",
        {
          tools: isFine
            ? h(
                "button",
                {
                  type: "button",
                  class: "button primary",
                  disabled: !may,
                  title: may ? null : "Needs the role admin",
                  on: { click: () => this.#apply() },
                },
                "Apply…",
              )
            : null,
        },
        changes.length
          ? diff(changes.map(line))
          : plan.error
            ? null
            : h(
                "p",
                { class: "soft" },
                plan.edited
                  ? "The file was edited, but nothing in it has another meaning."
                  : "None: the mirror runs what is on disk.",
              ),
      ),
    ];
  }
}

function changed(plan) {
  return plan.changes.filter((one) => one.change !== "untouched" && (one.key || one.change !== "changed"));
}

const NOT_SET = "(not set)";

function line(one) {
  const isNew = one.change === "added" || one.running === NOT_SET;
  const isGone = one.change === "removed" || one.new === NOT_SET;
  const [key, before, after] = one.key
    ? [one.key, one.running, one.new]
    : [`flow ${one.flow}`, "in the mirror", one.change];
  return { key, before: isNew ? null : before, after: isGone ? null : after, note: one.takes_effect };
}
