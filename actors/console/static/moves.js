/** A migration, group by group: what has moved to the target, and the dialogs that move a group or take that back. */

import * as api from "./api.js";
import { confirm } from "./dialog.js";
import { h } from "./dom.js";
import { Form } from "./operate.js";
import { badge, panel, refusal } from "./parts.js";
import { runView } from "./runs.js";

const PARTS = {
  moved: ["ok", "moved"],
  "consumes-on-source-again": ["trouble", "consumes on the source again"],
  moving: ["info", "moving"],
  "on-source": ["off", "on the source"],
  "commits-without-members": ["attention", "commits without members"],
  stopped: ["off", "stopped"],
};
const MOST_ROWS = 200;
const KINDS = ["move", "move-undo", "move-topics"];

/** The moves of a flow. `page` has `app`, `flow` and `runs`. */
export class Moves {
  constructor(page) {
    this.page = page;
    this.found = null;
    this.refused = "";
    this.asking = false;
  }

  /** Reads where each group stands; it takes seconds, because commits are looked at twice. */
  async ask() {
    const { app, flow } = this.page;
    this.asking = true;
    app.update();
    try {
      this.found = (await api.get(api.of(flow, "moves"))).progress;
      this.refused = "";
    } catch (error) {
      this.refused = error.message;
    }
    this.asking = false;
    app.update();
  }

  view() {
    const { runs } = this.page;
    const read = h(
      "button",
      { type: "button", class: "button", disabled: this.asking, on: { click: () => this.ask() } },
      this.asking ? "Asking both clusters…" : this.found ? "Read again" : "Read from both clusters",
    );
    return [
      KINDS.includes(runs.chosen?.kind) ? runs.view() : null,
      panel(
        "Moving to the target, group by group",
        { tools: read },
        this.refused ? refusal(this.refused) : null,
        this.found
          ? this.#groups()
          : h("p", { class: "soft" }, "A group that has moved reads on the target; the flow goes on copying for the others."),
      ),
    ];
  }

  #groups() {
    const { groups } = this.found;
    if (!groups.length) return h("p", { class: "soft" }, "No group reads a topic of this flow.");
    return [
      h(
        "ul",
        { class: "notes moves" },
        groups.slice(0, MOST_ROWS).map((one) => {
          const [health, text] = PARTS[one.part] ?? ["attention", one.part];
          const isMoved = one.part === "moved" || one.part === "consumes-on-source-again";
          return h(
            "li",
            { key: one.group },
            h("b", {}, one.group),
            " ",
            badge(health, text),
            " ",
            isMoved ? this.#button("Take back…", () => this.#undo(one.group)) : null,
            one.part === "moved" ? null : this.#button("Move…", () => move(this.page, one.group)),
          );
        }),
      ),
      groups.length > MOST_ROWS
        ? h("p", { class: "soft" }, `The first ${MOST_ROWS} of ${groups.length}; raymirror move --list prints all.`)
        : null,
    ];
  }

  #button(text, run) {
    const { app, runs } = this.page;
    const may = app.may("admin");
    const why = may ? (runs.running ? "A command runs" : null) : "Needs the role admin";
    const props = { type: "button", class: "button small", disabled: !may || Boolean(runs.running), title: why };
    return h("button", { ...props, on: { click: run } }, text);
  }

  #undo(group) {
    return confirm({
      title: `Take the move of ${group} back?`,
      text: "Its consumers read on the source again, from where they were when the group moved. Stop them on the target first.",
      verb: "Take back",
      word: this.page.flow,
      run: () => this.page.runs.begin("moves/undo", { group }),
    });
  }
}

/** Moves a group: looks first whether that is possible, then asks for the name of the flow. */
async function move(page, group) {
  let run = null;
  let refused = "";
  const form = new Form(page, `Move ${group}:`, () => [
    h("h2", {}, `Move ${group} to the target?`),
    h("p", {}, "Stop its consumers on the source first. Its offsets are committed on the target; start them there afterwards."),
    run || refused ? null : h("p", { class: "computing", role: "status" }, "Looking: nothing is changed…"),
    refused ? refusal(refused) : null,
    run ? runView(run) : null,
    form.fields(
      { verb: "Move", danger: true, isReady: run?.state === "done" },
      () => page.runs.begin("moves/group", { group }),
      ["raymirror", "move", group, "--flow", page.flow],
    ),
  ]);
  const opened = form.open();
  try {
    run = await page.runs.ended(await page.runs.begin("moves/group", { group, dry_run: true }));
  } catch (error) {
    refused = error.message;
  }
  form.update();
  await opened;
}
