/** Dialogs that act on a flow as a whole, or on a group of it: the name of the flow must be typed before they begin. */

import { runView } from "./runs.js";
import { h } from "../base/dom.js";
import { command, commandLine } from "../parts/command.js";
import { Attempt, Dialog, dialogButtons, typing } from "../parts/dialog.js";
import { choice } from "../parts/filters.js";
import { Loader } from "../parts/loader.js";
import { button, computing, note } from "../parts/parts.js";

/** A dialog that does something only after the name of the flow was typed. */
export class Form {
  constructor(page, label, content) {
    this.page = page;
    this.typed = "";
    this.attempt = new Attempt();
    this.dialog = new Dialog({ label, wide: true, view: content });
  }

  open() {
    return this.dialog.open();
  }

  update() {
    this.dialog.update();
  }

  /** The field of the name, the buttons, and the same as a command for a terminal. */
  fields({ verb, isReady }, run, words) {
    const { flow, app } = this.page;
    const isTyped = this.typed === flow;
    const may = app.may("admin");
    const act = () => (isTyped ? this.attempt.run(this.dialog, run) : null);
    const isOff = !isTyped || !isReady || this.attempt.isBusy;
    return [
      may
        ? typing(flow, this.typed, (value) => ((this.typed = value), this.update()))
        : note("To do it here you need the role admin."),
      this.attempt.view(),
      h(
        "details",
        { key: "command" },
        h("summary", {}, "As a command, for a machine that reaches the clusters"),
        command(commandLine(app, words)),
      ),
      dialogButtons(
        button("Close", () => this.dialog.close()),
        may ? button(this.attempt.isBusy ? "Starting…" : verb, act, { kind: "danger", isOff }) : null,
      ),
    ];
  }
}

/**
 * Checks an operation first, shows what is in the way, then asks for the name of the flow. `order()`: what it is begun
 * with; `words()`: the same as a command; `choices(again)`: what can be chosen, each of which is checked again.
 */
export async function operate(page, { title, verb, text, waiting, route, order, words, choices = () => null }) {
  const { runs } = page;
  const check = new Loader(async () => runs.ended(await runs.begin(route, { dry_run: true, ...order() })), {
    changed: () => form.update(),
    atStart: false,
  });
  const form = new Form(page, title, () => [
    h("h2", {}, title),
    text.map((line) => h("p", {}, line)),
    choices(() => check.askAfresh()),
    check.view(runView, { waiting: computing(waiting) }),
    form.fields({ verb, isReady: check.found?.state === "done" }, () => runs.begin(route, order()), words()),
  ]);
  const opened = form.open();
  await check.ask();
  await opened;
}

/** Switches over: makes the target the cluster that is written to. */
export function switchOver(page) {
  const [source, target] = page.flow.split("->");
  return fenced(page, "switchover", "Switch over", [
    `It keeps producers from ${source}, copies what is left, moves the groups, and makes ${target} the cluster that is written to. No record is lost.`,
    "A step that fails can be tried again, or taken back until the point of no return.",
  ]);
}

/** Fails back: gives the source what only the target has. */
export function failBack(page) {
  const [source, target] = page.flow.split("->");
  return fenced(page, "failback", "Fail back", [
    `It gives ${source} what only ${target} has, and keeps what ${source} has alone on both clusters.`,
    "No mirror may run the flow or its reverse meanwhile.",
  ]);
}

/** An operation that keeps producers from the source. */
function fenced(page, kind, verb, text) {
  let fence = "";
  return operate(page, {
    title: `${verb} ${page.flow}?`,
    verb,
    text,
    waiting: "Checking: nothing is changed…",
    route: kind,
    order: () => ({ fence }),
    words: () => ["raymirror", "dr", kind, page.flow, ...(fence ? ["--fence", fence] : [])],
    choices: (again) =>
      choice(fence, "How producers are kept from the source", FENCES, (value) => ((fence = value), again())),
  });
}

const FENCES = [
  ["", "as usual: by ACLs"],
  ["command", "by the command of raymirror.dr.fence.command"],
  ["none", "not at all: I have stopped the producers"],
];
