/** The configuration: what the file on disk would change in the running mirror, then a reload. */

import { Page } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { confirm } from "../parts/dialog.js";
import { diff } from "../parts/diff.js";
import { button, facts, flowLink, note, notice, pageHead, panel } from "../parts/parts.js";

const REFRESH_MS = 10_000;
const NOT_SET = "(not set)";

export class ConfigPage extends Page {
  constructor(app) {
    super(app);
    this.plan = this.addLoader((signal) => api.get("/plan", signal), { everyMs: REFRESH_MS });
  }

  title() {
    return "Configuration";
  }

  view() {
    return [
      pageHead(
        "Configuration",
        "The file is the only source of settings. Edit it, look at the difference here, then apply it.",
      ),
      this.plan.view((plan) => this.#plan(plan)),
      this.plan.isAnswered ? this.#flows() : null,
    ];
  }

  #flows() {
    const links = [...this.app.store.flows.keys()].map((flow) => h("li", {}, flowLink(flow, "settings")));
    return panel("Settings of a flow", {}, h("ul", { class: "links" }, links));
  }

  #plan(plan) {
    const changes = changed(plan);
    const isFine = changes.length > 0 && !plan.refused.length && !plan.error;
    const apply = button("Apply…", () => this.#apply(plan), { kind: "primary", why: this.app.whyNot("admin") });
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
      plan.error ? notice("trouble", plan.error) : null,
      plan.refused.map((why) => notice("trouble", `Cannot be applied while the mirror runs: ${why}`)),
      panel("Difference", { tools: isFine ? apply : null }, changes.length ? diff(changes.map(line)) : unchanged(plan)),
    ];
  }

  #apply(plan) {
    return confirm({
      title: "Apply the file on disk?",
      text: [
        `${format.counted(changed(plan).length, "change")} to the running mirror. Copiers are replaced one by one if they must be.`,
        "If the file is edited again before, this is refused.",
      ],
      verb: "Apply",
      run: async () => {
        await api.post("/reload", { new: plan.new });
        this.plan.refresh();
      },
    });
  }
}

/** Says why there is no difference to be shown. */
function unchanged(plan) {
  if (plan.error) return note("Not known: the file cannot be read as a configuration.");
  return note(
    plan.edited
      ? "The file was edited, but nothing in it has another meaning."
      : "None: the mirror runs what is on disk.",
  );
}

function changed(plan) {
  return plan.changes.filter((one) => one.change !== "untouched" && (one.key || one.change !== "changed"));
}

function line(one) {
  const isNew = one.change === "added" || one.running === NOT_SET;
  const isGone = one.change === "removed" || one.new === NOT_SET;
  const [key, before, after] = one.key
    ? [one.key, one.running, one.new]
    : [`flow ${one.flow}`, "in the mirror", one.change];
  return { key, before: isNew ? null : before, after: isGone ? null : after, note: one.takes_effect };
}
