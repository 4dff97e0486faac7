/** A migration, group by group: what has moved to the target, and the dialogs that move a group or take that back. */

import { operate } from "./operate.js";
import { h } from "../base/dom.js";
import { confirm } from "../parts/dialog.js";
import { badge, button, MOST_ROWS, note, panel } from "../parts/parts.js";

const PARTS = {
  moved: ["ok", "moved"],
  "consumes-on-source-again": ["trouble", "consumes on the source again"],
  moving: ["info", "moving"],
  "on-source": ["off", "on the source"],
  "commits-without-members": ["attention", "commits without members"],
  stopped: ["off", "stopped"],
};
const KINDS = ["move", "move-undo", "move-topics"];

/** The moves of the flow of a page, which has `runs`. It takes seconds to read them: commits are looked at twice. */
export class Moves {
  constructor(page) {
    this.page = page;
    this.found = page.addFlowLoader("moves", { atStart: false });
  }

  view() {
    const { runs } = this.page;
    const { found } = this;
    return [
      KINDS.includes(runs.chosen?.kind) ? runs.view() : null,
      panel(
        "Moving to the target, group by group",
        { tools: found.button("Read from both clusters", "Read again") },
        found.view(({ progress }) => this.#groups(progress.groups), {
          before: note("A group that has moved reads on the target; the flow goes on copying for the others."),
        }),
      ),
    ];
  }

  #groups(groups) {
    if (!groups.length) return note("No group reads a topic of this flow.");
    return [
      h(
        "ul",
        { class: "notes moves" },
        groups.slice(0, MOST_ROWS).map((one) => this.#group(one)),
      ),
      groups.length > MOST_ROWS
        ? note(`The first ${MOST_ROWS} of ${groups.length}; raymirror move --list prints all.`)
        : null,
    ];
  }

  #group({ group, part }) {
    const why = this.page.runs.whyNot("admin");
    const [health, text] = PARTS[part] ?? ["attention", part];
    const isMoved = part === "moved" || part === "consumes-on-source-again";
    return h(
      "li",
      { key: group },
      h("b", {}, group),
      " ",
      badge(health, text),
      " ",
      isMoved ? button("Take back…", () => takeBack(this.page, group), { kind: "small", why }) : null,
      part === "moved" ? null : button("Move…", () => move(this.page, group), { kind: "small", why }),
    );
  }
}

function takeBack(page, group) {
  return confirm({
    title: `Take the move of ${group} back?`,
    text: "Its consumers read on the source again, from where they were when the group moved. Stop them on the target first.",
    verb: "Take back",
    word: page.flow,
    run: () => page.runs.begin("moves/undo", { group }),
  });
}

function move(page, group) {
  return operate(page, {
    title: `Move ${group} to the target?`,
    verb: "Move",
    text: [
      "Stop its consumers on the source first. Its offsets are committed on the target; start them there afterwards.",
    ],
    waiting: "Checking: nothing is changed…",
    route: "moves/group",
    order: () => ({ group }),
    words: () => ["raymirror", "move", group, "--flow", page.flow],
  });
}
