/** Dialogs that act on a flow as a whole: a failover, a switchover, a failback. */

import { Dialog, typing } from "./dialog.js";
import { h } from "./dom.js";
import { command, quoted, refusal } from "./parts.js";
import { runView } from "./runs.js";

/** A dialog that does something only after the name of the flow was typed. */
export class Form {
  constructor(page, verb, content) {
    this.page = page;
    this.typed = "";
    this.busy = false;
    this.refused = "";
    this.dialog = new Dialog({ label: `${verb} ${page.flow}`, wide: true, view: content });
  }

  open() {
    return this.dialog.open();
  }

  update() {
    this.dialog.update();
  }

  /** The field of the name, the buttons, and the same as a command for a terminal. */
  fields({ verb, danger, isReady }, run, words) {
    const { flow, app } = this.page;
    const file = app.store.mirror?.config_path;
    const typed = [...words, ...(file ? ["--config", file] : [])];
    const may = app.may("admin");
    const isTyped = this.typed === flow;
    const act = async () => {
      if (this.busy || !isTyped) return;
      this.busy = true;
      this.refused = "";
      this.update();
      try {
        await run();
        this.dialog.close(true);
      } catch (error) {
        this.refused = error.message;
      }
      this.busy = false;
      this.update();
    };
    return [
      may ? typing(flow, this.typed, (value) => ((this.typed = value), this.update())) : null,
      may ? null : h("p", { class: "soft" }, "To do it here you need the role admin."),
      this.refused ? refusal(this.refused) : null,
      h(
        "details",
        { key: "command" },
        h("summary", {}, "As a command, for a machine that reaches the clusters"),
        command(typed.map(quoted).join(" ")),
      ),
      h(
        "div",
        { class: "dialog-buttons" },
        h("button", { type: "button", class: "button", on: { click: () => this.dialog.close() } }, "Close"),
        may
          ? h(
              "button",
              {
                type: "button",
                class: danger ? "button danger" : "button primary",
                disabled: !isTyped || !isReady || this.busy,
                on: { click: act },
              },
              this.busy ? "Starting…" : verb,
            )
          : null,
      ),
    ];
  }
}

/** The operations that are checked before they begin: their verbs, and what they do. */
const OPERATIONS = {
  switchover: {
    verb: "Switch over",
    text: (source, target) => [
      `It keeps producers from ${source}, copies what is left, moves the groups, and makes ${target} the cluster that is written to. No record is lost.`,
      "A step that fails can be tried again, or taken back until the point of no return.",
    ],
  },
  failback: {
    verb: "Fail back",
    text: (source, target) => [
      `It gives ${source} what only ${target} has, and keeps what ${source} has alone on both clusters.`,
      "No mirror may run the flow or its reverse meanwhile.",
    ],
  },
};

/** Switches over or fails back: checks first, shows what is in the way, then asks for the name of the flow. */
export async function operate(page, kind) {
  const told = OPERATIONS[kind];
  let run = null;
  let refused = "";
  let fence = "";
  let turn = 0; // of the last check: an earlier one has checked another choice
  const check = async () => {
    const own = ++turn;
    run = null;
    refused = "";
    form.update();
    let found = null;
    let why = "";
    try {
      found = await page.runs.ended(await page.runs.begin(kind, { dry_run: true, fence }));
    } catch (error) {
      why = error.message;
    }
    if (own !== turn) return;
    run = found;
    refused = why;
    form.update();
  };
  const form = new Form(page, told.verb, () => [
    h("h2", {}, `${told.verb} ${page.flow}?`),
    told.text(...page.flow.split("->")).map((line) => h("p", {}, line)),
    fenceChoice(fence, (value) => ((fence = value), check())),
    run || refused ? null : h("p", { class: "computing", role: "status" }, "Checking: nothing is changed…"),
    refused ? refusal(refused) : null,
    run ? runView(run) : null,
    form.fields(
      { verb: told.verb, danger: true, isReady: run?.state === "done" },
      () => page.runs.begin(kind, { fence }),
      ["raymirror", "dr", kind, page.flow, ...(fence ? ["--fence", fence] : [])],
    ),
  ]);
  const opened = form.open();
  await check();
  await opened;
}

/** Asks how producers are kept from the source. */
function fenceChoice(fence, changed) {
  const words = {
    "": "as usual: by ACLs",
    command: "by the command of raymirror.dr.fence.command",
    none: "not at all: I have stopped the producers",
  };
  return h(
    "label",
    { class: "select" },
    h("span", {}, "How producers are kept from the source"),
    h(
      "select",
      { on: { change: (event) => changed(event.target.value) } },
      Object.entries(words).map(([value, text]) => h("option", { value, selected: value === fence }, text)),
    ),
  );
}
