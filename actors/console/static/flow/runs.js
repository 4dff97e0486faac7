/**
 * The commands that the page has started: failovers, switchovers, failbacks, drills, proofs, replays. Each is a process
 * beside the mirror; what is shown of it comes from its own lines, so it says how far it really is.
 */

import { outcome } from "./outcomes.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { command, commandLine } from "../parts/command.js";
import { confirm } from "../parts/dialog.js";
import { actions, badge, button, computing, notice, noteList, panel, refusal, time } from "../parts/parts.js";

const LOOK_MS = 1_000;
const SILENT_MS = 30_000;
const MOST_SHOWN = 5;
const MOST_LINES = 12;
const STATES = {
  running: ["info", "Running"],
  done: ["ok", "Done"],
  not_equal: ["attention", "Done, but not all is as it should be"],
  failed: ["trouble", "Failed"],
  refused: ["attention", "Refused: nothing was changed"],
  lost: ["trouble", "Killed"],
};
const TITLES = {
  failover: "Failover",
  switchover: "Switchover",
  failback: "Failback",
  drill: "Drill",
  resume: "Switchover, continued",
  abort: "Switchover, taken back",
  verify: "Proof",
  apply: "Topics, configs and ACLs in step",
  replay: "Replay of refused records",
  drop: "Drop of refused records",
  translate: "Offsets of a group, committed on the target",
  move: "Move of a group",
  "move-undo": "Move of a group, taken back",
  "move-topics": "Move of producers",
};

/** How far the last step is, by the state of its run. */
const LAST_STEP = { done: ["ok", "done"], not_equal: ["ok", "done"], running: ["info", "under way"] };

/** The runs of one flow, looked at again and again while one of them is under way. */
export class Runs {
  constructor(app, flow) {
    this.app = app;
    this.flow = flow;
    this.known = [];
    this.chosen = null; // the last one, with its result
    this.lost = ""; // why the server did not answer, when it was asked last
    this.inDoubt = false; // an order was sent, and its answer was lost
    this.timer = 0;
    this.isAnswered = false; // whether the server was asked, and has answered or not
    this.turn = 0; // of the last look: an answer to an earlier one comes too late
    this.stopped = false;
  }

  start() {
    this.look();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  get running() {
    return this.known.find((run) => run.state === "running") ?? null;
  }

  /** Starts a command; resolves with its run. A refusal is thrown. */
  async begin(route, order = {}) {
    const run = await this.#ask(route, order);
    this.chosen = run;
    this.known = [run, ...this.known];
    await this.look();
    return run;
  }

  /** Sends an order. If its answer is lost, nobody knows whether it has begun: then the page says so, and looks. */
  async #ask(route, order) {
    try {
      return await api.post(api.of(this.flow, route), { flow: this.flow, ...order });
    } catch (error) {
      if (error.status > 0 && error.status < 500) throw error; // it was refused
      this.inDoubt = true;
      this.look();
      const why = error.status ? `The server failed (${error.message}).` : "The server does not answer.";
      throw new Error(`${why} Whether the command has begun is not known: look at the runs of this page first.`);
    }
  }

  /** Asks for the runs, and for the result of the last one; asks again soon while one is under way. */
  async look() {
    clearTimeout(this.timer);
    const turn = ++this.turn;
    let { known, chosen } = this;
    let lost = "";
    try {
      known = (await this.#get("runs")).runs;
      const last = known[0];
      if (last && (chosen?.run !== last.run || chosen.ended_ms === null)) chosen = await this.#get(`runs/${last.run}`);
    } catch (error) {
      lost = error.message;
    }
    if (this.stopped || turn !== this.turn) return; // a later look knows more
    Object.assign(this, { known, chosen, lost, isAnswered: true, inDoubt: this.inDoubt && Boolean(lost) });
    this.app.update();
    const isOpen = this.running || (this.lost && (this.inDoubt || this.chosen?.ended_ms === null));
    if (isOpen) this.timer = setTimeout(() => this.look(), LOOK_MS);
  }

  /** Asks the server; one that is silent for long does not answer. */
  #get(what) {
    return api.get(api.of(this.flow, what), AbortSignal.timeout(SILENT_MS));
  }

  /** Waits until a run has ended; resolves with it and its result. */
  async ended(run) {
    for (;;) {
      const found = await this.#get(`runs/${run.run}`);
      if (found.state !== "running") return found;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      if (this.stopped) throw new Error("The page was left.");
    }
  }

  /** Why a command that needs a role cannot be started now; empty if it can. */
  whyNot(role) {
    return this.app.whyNot(role) || (this.running ? "A command runs" : "");
  }

  /** Draws the last run with its steps, and the others in a line each. */
  view(more = null) {
    const run = this.chosen;
    if (!run) return null;
    const others = this.known.filter((one) => one.run !== run.run).slice(0, MOST_SHOWN);
    return [
      panel(
        `${titleOf(run)}${run.dry_run ? ", checked only" : ""}`,
        { class: "run" },
        this.lost ? this.#lost() : null,
        runView(run),
        run.state === "running" && this.app.may("admin") ? this.#end(run) : null,
        more,
      ),
      others.length ? panel("Before that", {}, noteList(others.map(runLine))) : null,
    ];
  }

  /** A command that hangs keeps all others of the flow waiting. */
  #end(run) {
    const end = () =>
      confirm({
        title: `End the ${titleOf(run)} of ${run.flow}?`,
        text: [
          "The command stops where it is, as if its terminal were closed. What it has done until then stays.",
          "Do this only if it hangs: an operation that is ended half-way must go on, or be taken back.",
        ],
        verb: "End it",
        word: run.flow,
        danger: true,
        run: async () => {
          await api.remove(api.of(this.flow, `runs/${run.run}`));
          await this.look();
        },
      });
    return actions("The command that runs", button("End it…", end, { kind: "small" }));
  }

  /** A failover of the last flow ends the mirror, and with it this server; the command itself goes on. */
  #lost() {
    const hasEnded = this.app.store.state === "ended";
    return [
      notice(
        "attention",
        hasEnded
          ? "The mirror has ended, and with it this server: a failover of its last flow does that. "
          : "The server does not answer. ",
        "The command is a process of its own and goes on, unless its machine or service ends too. This says what became of it:",
      ),
      command(commandLine(this.app, ["raymirror", "dr", "status", this.flow])),
    ];
  }
}

function titleOf(run) {
  return TITLES[run.kind] ?? run.kind;
}

/** A run in a line. */
function runLine(run) {
  const what = `${titleOf(run)}${run.dry_run ? " (checked only)" : ""}`;
  return [time(run.began_ms, format.instant), ` ${what} by ${run.user}: ${STATES[run.state]?.[1] ?? run.state}`];
}

/** One run: its state, its steps, what it says, and what is to be done if it has failed. */
export function runView(run) {
  const [health, text] = STATES[run.state] ?? ["info", run.state];
  const hasEnded = run.state !== "running";
  const lines = outcome(run);
  return [
    h(
      "p",
      { class: "run-head", role: "status" },
      badge(health, text),
      h(
        "span",
        { class: "soft" },
        ` begun by ${run.user} at `,
        time(run.began_ms, format.instant),
        run.ended_ms ? `, ended after ${format.duration((run.ended_ms - run.began_ms) / 1000)}` : "",
      ),
    ),
    run.why ? refusal(run.why) : null,
    run.steps.length ? stepList(run.steps, run.state) : hasEnded ? null : computing("It begins…"),
    lines.length ? noteList(lines) : null,
    h(
      "details",
      { key: `said-${run.run}` },
      h("summary", {}, "The command and what it says"),
      command(run.command),
      h("pre", { class: "said", tabindex: "0" }, run.said.slice(-MOST_LINES).join("\n") || "nothing"),
    ),
  ];
}

function stepList(steps, state) {
  const last = steps.length - 1;
  const rest = steps[last].of - steps[last].number;
  return h(
    "ol",
    { class: "run-steps" },
    steps.map((step, at) => {
      const end = steps[at + 1]?.since_seconds;
      const [health, word] = at < last ? ["ok", "done"] : (LAST_STEP[state] ?? ["trouble", "not finished"]);
      return h(
        "li",
        { key: `${at}-${step.name}`, class: health },
        badge(health, word),
        h("b", {}, `${step.undo ? "undo " : ""}${step.name}`),
        h("span", {}, step.does),
        h("span", { class: "soft" }, end === undefined ? step.told : format.duration(end - step.since_seconds)),
      );
    }),
    state === "running" && rest > 0 ? h("li", { class: "soft", key: "rest" }, format.counted(rest, "more step")) : null,
  );
}
