/**
 * The commands that the page has started: failovers, switchovers, failbacks, drills, proofs, replays. Each is a process
 * beside the mirror; what is shown of it comes from its own lines, so it says how far it really is.
 */

import * as api from "./api.js";
import { confirm } from "./dialog.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { badge, command, panel, quoted, refusal, time } from "./parts.js";

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
  resume: "Switchover, gone on with",
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
    Object.assign(this, { known, chosen, lost, inDoubt: this.inDoubt && Boolean(lost) });
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

  /** Draws the last run with its steps, and the others in a line each. */
  view(more = null) {
    if (!this.chosen) return null;
    const others = this.known.filter((run) => run.run !== this.chosen.run).slice(0, MOST_SHOWN);
    return [
      panel(
        `${TITLES[this.chosen.kind] ?? this.chosen.kind}${this.chosen.dry_run ? ", checked only" : ""}`,
        { class: "run" },
        this.lost ? this.#lost() : null,
        runView(this.chosen),
        this.#end(),
        more,
      ),
      others.length
        ? panel(
            "Before that",
            {},
            h(
              "ul",
              { class: "notes" },
              others.map((run) =>
                h(
                  "li",
                  { key: run.run },
                  time(run.began_ms, format.instant),
                  ` ${TITLES[run.kind] ?? run.kind}${run.dry_run ? " (checked only)" : ""} by ${run.user}: ${STATES[run.state]?.[1] ?? run.state}`,
                ),
              ),
            ),
          )
        : null,
    ];
  }

  /** A command that hangs keeps all others of the flow waiting. */
  #end() {
    const run = this.chosen;
    if (run.state !== "running" || !this.app.may("admin")) return null;
    const end = () =>
      confirm({
        title: `End the ${TITLES[run.kind] ?? run.kind} of ${run.flow}?`,
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
    return h(
      "div",
      { class: "actions", role: "group", "aria-label": "The command that runs" },
      h("button", { type: "button", class: "button small", on: { click: end } }, "End it…"),
    );
  }

  /** A failover of the last flow ends the mirror, and with it this server; the command itself goes on. */
  #lost() {
    const file = this.app.store.mirror?.config_path;
    const words = ["raymirror", "dr", "status", this.flow, ...(file ? ["--config", file] : [])].map(quoted).join(" ");
    const ended = this.app.store.state === "ended";
    return [
      h(
        "p",
        { class: "notice attention", role: "status" },
        h(
          "span",
          {},
          ended
            ? "The mirror has ended, and with it this server: a failover of its last flow does that. "
            : "The server does not answer. ",
          "The command is a process of its own and goes on, unless its machine or service ends too. What became of it says:",
        ),
      ),
      command(words),
    ];
  }
}

/** One run: its state, its steps, what it says, and what is to be done if it has failed. */
export function runView(run) {
  const [health, text] = STATES[run.state] ?? ["info", run.state];
  const done = run.state !== "running";
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
    run.why ? h("p", { class: "refused", role: "alert" }, run.why) : null,
    run.steps.length ? stepList(run.steps, run.state) : done ? null : h("p", { class: "computing" }, "It begins…"),
    outcome(run),
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
  return h(
    "ol",
    { class: "run-steps" },
    steps.map((step, at) => {
      const end = steps[at + 1]?.since_seconds;
      const [health, word] =
        at < last || state === "done" || state === "not_equal"
          ? ["ok", "done"]
          : state === "running"
            ? ["info", "under way"]
            : ["trouble", "not finished"];
      return h(
        "li",
        { key: `${at}-${step.name}`, class: health },
        badge(health, word),
        h("b", {}, `${step.undo ? "undo " : ""}${step.name}`),
        h("span", {}, step.does),
        h("span", { class: "soft" }, end === undefined ? step.told : `${format.duration(end - step.since_seconds)}`),
      );
    }),
    state === "running" && steps[last].number < steps[last].of
      ? h("li", { class: "soft", key: "rest" }, `${format.counted(steps[last].of - steps[last].number, "more step")}`)
      : null,
  );
}

/** The sentences of a result; text is what a command line has asked for, and is shown as it is. */
function linesOf(run) {
  if (typeof run.result === "string") return run.result.trimEnd().split("\n");
  return run.result ? (OUTCOMES[run.kind]?.(run.result, run) ?? []) : [];
}

/** What a run has found or done, in sentences. */
function outcome(run) {
  const lines = linesOf(run);
  if (!lines.length) return null;
  return h(
    "ul",
    { class: "notes" },
    lines.map((line) => h("li", {}, line)),
  );
}

const OUTCOMES = {
  failover: (found) => [
    found.stopped ? "The flow is stopped: its consumers may use the target." : "The flow is still stopping.",
    found.source
      ? `The source did not answer: ${found.source}. What it had alone is not known.`
      : found.drained
        ? "Every record that the source had when the flow was stopped is on the target."
        : "Not every partition is drained, or that is not known; the command's table names them.",
    found.equal
      ? `Each of ${format.counted(found.standing?.groups ?? 0, "group")} stands exactly where it stood.`
      : "Not every group stands exactly where it stood.",
  ],
  switchover: (found, run) => (run.dry_run ? reasonsOf(found.reasons) : operation(found)),
  resume: (found) => operation(found),
  abort: (found) => operation(found),
  failback: (found, run) =>
    run.dry_run
      ? [
          `${format.counted((found.partitions ?? []).length, "partition")} compared.`,
          ...reasonsOf((found.refused ?? []).map((one) => [one.name, `${one.subject}: ${one.why}`])),
        ]
      : operation(found.operation),
  verify: (found) =>
    (found.flows ?? []).map(
      (one) => `${one.flow}: ${one.whole ? "whole" : "not proven whole"}, ${format.counted(differencesOf(one), "difference")}.`,
    ),
  replay: (found) => [
    `${format.counted(found.replayed, "record")} replayed.`,
    ...found.results.filter((one) => one.why_not).map((one) => `${one.record}: not replayed: ${one.why_not}`),
  ],
  move: (found, run) =>
    found.refused?.length
      ? found.refused.map((one) => `${one.name}: ${one.why}`)
      : [run.dry_run ? "The group could be moved now." : "The group is moved: start its consumers on the target.", ...(found.advice ?? [])],
  "move-undo": (found) => (found.undone ? ["Start its consumers on the source again."] : []),
  drop: (found) => [`${format.counted(found.dropped.length, "record")} dropped.`],
  drill: (found) => [
    found.passed
      ? "A failover would have gone well."
      : found.failed
        ? `The drill did not finish: ${found.failed}`
        : "A failover would have hurt:",
    `It would have taken ${format.duration(found.rto_s)}, and the pause and stop of the flow.`,
    ...(found.findings ?? []).slice(0, 20).map((one) => `${one.subject}: ${one.why}`),
  ],
};

const differencesOf = (proof) => proof.lanes.reduce((sum, lane) => sum + lane.differences, 0); // its list may be cut

/** What speaks against an operation, in sentences; says so too if nothing does. */
export function reasonsOf(reasons) {
  if (!reasons?.length) return ["Nothing is in the way, as of this check."];
  return reasons.map(([name, why]) => `${name}: ${why}`);
}

function operation(found) {
  return found ? [`${found.kind} ${found.id}: ${found.state}`] : [];
}

/** What was done before: operations and failovers, as they are stored on the clusters. */
export class Past {
  constructor(app, flow) {
    this.app = app;
    this.flow = flow;
    this.found = null;
    this.refused = "";
    this.asking = false;
  }

  async ask() {
    this.asking = true;
    this.app.update();
    try {
      this.found = await api.get(api.of(this.flow, "operations"));
      this.refused = "";
    } catch (error) {
      this.refused = error.message;
    }
    this.asking = false;
    this.app.update();
  }

  view() {
    return panel(
      "Failovers and operations so far",
      {
        tools: h(
          "button",
          { type: "button", class: "button small", disabled: this.asking, on: { click: () => this.ask() } },
          this.asking ? "Reading…" : "Read from both clusters",
        ),
      },
      this.refused ? refusal(this.refused) : null,
      this.found ? this.#rows() : null,
    );
  }

  #rows() {
    const { operations, failovers, failovers_unread: unread, away } = this.found;
    const rows = [
      ...operations.map((one) => [one.began_ms, `${one.kind} of ${one.flow}`, one.state, one.why]),
      ...failovers.map((one) => [
        one.at_ms,
        `failover of ${one.flow}`,
        one.stands ? "keeps the flow stopped" : "no longer in force",
        one.text,
      ]),
    ].sort(([one], [other]) => other - one);
    const unknown = [...Object.entries(away), ...Object.entries(unread)];
    return [
      rows.length
        ? h(
            "ul",
            { class: "notes past" },
            rows.map(([atMs, what, state, text]) =>
              h("li", {}, time(atMs, format.instant), ` ${what}: ${state}${text ? ` (${text})` : ""}`),
            ),
          )
        : h("p", { class: "soft" }, "None is stored."),
      unknown.map(([who, why]) => h("p", { class: "soft" }, `Not known: ${who}: ${why}`)),
    ];
  }
}
