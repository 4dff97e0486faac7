/**
 * What a failover would lose now, and failover, switchover, failback and drill themselves. Each dialog computes or checks
 * first and asks to type the name of the flow. What is started is a command of its own, which outlives this server.
 */

import * as api from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { Form, operate } from "../operate.js";
import { flowHead, loading, panel, refusal, tile } from "../parts.js";
import { Past, Runs } from "../runs.js";
import { named, standTable } from "./groups.js";

const MOST_ROWS = 200;

export class FailoverPage {
  constructor(app, { flow }) {
    this.app = app;
    this.flow = flow;
    this.found = null;
    this.refused = "";
    this.asking = false;
    this.runs = new Runs(app, flow);
    this.past = new Past(app, flow);
  }

  title() {
    return `Failover of ${this.flow}`;
  }

  start() {
    this.abort = new AbortController();
    this.ask();
    this.runs.start();
  }

  stop() {
    this.abort.abort();
    this.runs.stop();
  }

  /** Computes the loss; the answer may take seconds, because both clusters are asked. */
  async ask(changed = () => this.app.update()) {
    this.asking = true;
    changed();
    try {
      this.found = await api.get(api.of(this.flow, "failover-preview"), this.abort.signal);
      this.refused = "";
      const { readiness } = this.found.preview;
      this.app.store.previews.set(this.flow, {
        atMs: this.found.at_ms,
        missing: readiness.unready.length + readiness.unknown.length,
      });
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.refused = error.message;
    }
    this.asking = false;
    changed();
    this.app.update();
  }

  view() {
    const { found } = this;
    const isOver = this.app.store.flow(this.flow)?.failed_over;
    return [
      flowHead(this.app, this.flow, "failover"),
      this.runs.view(this.#ways()),
      h(
        "div",
        { class: "sub-head" },
        h("h2", {}, "If the source were gone now"),
        h("span", { class: "grow" }),
        h(
          "div",
          { class: "actions", role: "group", "aria-label": "Failover" },
          h(
            "button",
            { type: "button", class: "button", disabled: this.asking, on: { click: () => this.ask() } },
            this.asking ? "Asking both clusters…" : "Compute again",
          ),
          this.#button("restart", "Drill…", () => this.#drill()),
          isOver
            ? this.#button("failover", "Fail back…", () => operate(this, "failback"))
            : this.#button("failover", "Switch over…", () => operate(this, "switchover")),
          h(
            "button",
            {
              type: "button",
              class: "button danger",
              disabled: isOver || Boolean(this.runs.running),
              title: isOver ? "It was failed over already" : null,
              on: { click: () => this.#failover() },
            },
            icon("failover"),
            h("span", {}, "Fail over…"),
          ),
        ),
      ),
      isOver
        ? h(
            "p",
            { class: "notice" },
            icon("off"),
            h(
              "span",
              {},
              "This flow was failed over: its consumers use the target. What follows is what only the source has now.",
            ),
          )
        : null,
      this.refused ? refusal(this.refused) : null,
      found
        ? this.#found(found)
        : this.refused
          ? null
          : loading("Asking both clusters: what the source has and the target does not…"),
      this.past.view(),
    ];
  }

  #found(found) {
    const { preview } = found;
    const losses = preview.losses.filter((one) => one.records || one.unknown || one.left_out);
    return [
      answers(found),
      h(
        "p",
        { class: "soft" },
        `Read from both clusters in ${format.duration(found.took_seconds)} at ${format.clock(found.at_ms)}. Nothing was changed.`,
      ),
      losses.length ? panel("What would be lost", {}, lossTable(losses)) : null,
      preview.readiness.unready.length
        ? panel("What applications would miss on the target", {}, unready(preview.readiness.unready))
        : null,
      preview.readiness.unknown.length
        ? named("Not known", Object.fromEntries(preview.readiness.unknown.map((why) => [why, ""])), "attention")
        : null,
      named("Groups that could not be read", preview.standing.failed, "trouble"),
      preview.standing.stands.length
        ? panel("Where each group stands", {}, standTable(sorted(preview.standing.stands)))
        : null,
    ];
  }

  /** Fails over: computes the loss, asks for the name of the flow, then starts the command. */
  async #failover() {
    const form = new Form(this, "Fail over", () => this.#failoverDialog(form));
    const opened = form.open();
    await this.ask(() => form.update());
    await opened;
  }

  #failoverDialog(form) {
    const { found } = this;
    const isGood = found?.whole && found.equal;
    return [
      h("h2", {}, `Fail over ${this.flow}?`),
      this.asking ? h("p", { class: "computing", role: "status" }, "Computing the loss: asking both clusters…") : null,
      this.refused && !this.asking ? refusal(`The loss is not known: ${this.refused}`) : null,
      found && !this.asking && !this.refused
        ? h(
            "p",
            { class: `notice ${isGood ? "ok" : "trouble"}` },
            icon(isGood ? "ok" : "trouble"),
            h(
              "span",
              {},
              `As of ${format.clock(found.at_ms)}: ${found.sentence}. ${groupsText(found)} What the source gets from then on comes on top.`,
            ),
          )
        : null,
      h(
        "p",
        {},
        "A failover copies what it can for a minute at most, stops the flow for good, and moves its consumer groups to the target. " +
          "Stop the applications of the source first, or they go on writing what nobody copies.",
      ),
      this.app.store.flows.size === 1
        ? h(
            "p",
            {},
            "It is the mirror's only flow: the mirror ends with it, and this page too. The command goes on by itself; raymirror dr status tells its end.",
          )
        : null,
      form.fields(
        { verb: "Fail over", danger: true, isReady: !this.asking },
        () => this.runs.begin("failover"),
        ["raymirror", "failover", this.flow],
      ),
    ];
  }

  #drill() {
    return confirm({
      title: `Rehearse a failover of ${this.flow}?`,
      text: [
        "A drill waits until what the source has now is copied, translates the groups, reads with consumers of its own and writes to a scratch topic on the target.",
        "Producers, consumers and live groups notice nothing.",
        "It takes everything away that it has made. It reads from both clusters.",
      ],
      verb: "Drill",
      run: () => this.runs.begin("drill"),
    });
  }

  /** What goes on with an operation whose step has failed, or takes it back. */
  #ways() {
    const run = this.runs.chosen;
    const isOpen = run && ["failed", "lost"].includes(run.state) && ["switchover", "resume", "abort"].includes(run.kind);
    if (!isOpen || run.dry_run || !this.app.may("admin")) return null;
    return h(
      "div",
      { class: "actions", role: "group", "aria-label": "What to do now" },
      this.#button("play", "Go on", () => this.#again("operation/resume", "Go on", "Goes on with the step that has failed.")),
      this.#button("restart", "Take back", () =>
        this.#again("operation/abort", "Take back", "Takes the steps back, the last one first; the source serves again."),
      ),
    );
  }

  #again(route, verb, text) {
    return confirm({
      title: `${verb}: ${this.flow}?`,
      text,
      verb,
      word: this.flow,
      run: () => this.runs.begin(route),
    });
  }

  #button(sign, text, run, more = "") {
    const may = this.app.may("admin") && !this.runs.running;
    const why = this.app.may("admin") ? (this.runs.running ? "A command runs" : null) : "Needs the role admin";
    return h(
      "button",
      { type: "button", class: `button ${more}`, disabled: !may, title: why, on: { click: run } },
      icon(sign),
      h("span", {}, text),
    );
  }
}

export function groupsText(found) {
  const missing = Object.keys(found.preview.standing.missing).length;
  if (missing) return "Not all consumer groups are known.";
  if (!found.groups) return "There is no consumer group.";
  if (found.equal) return `${format.counted(found.groups, "group")} would continue exactly.`;
  return `${format.whole(found.groups_not_exact.length)} of ${format.counted(found.groups, "group")} would not continue exactly.`;
}

/** The three answers of a preview. What is not known is never shown as nothing. */
export function answers(found) {
  return h("div", { class: "tiles" }, lostTile(found), groupsTile(found), missedTile(found.preview));
}

function lostTile({ loss, preview, whole }) {
  const unread = Object.keys(preview.unread).length;
  const isUnknown = Boolean(preview.source || unread || loss.unknown_partitions);
  const about = `${isUnknown ? "at least " : ""}${loss.exact ? "" : "about "}`;
  const details = [
    loss.records ? format.size(loss.bytes) : "",
    loss.records && loss.seconds ? `the oldest ${format.duration(loss.seconds)} old` : "",
    loss.unknown_partitions ? `${format.counted(loss.unknown_partitions, "partition")} not known` : "",
    unread ? "not all positions could be read" : "",
  ];
  return tile({
    question: "Lost records",
    health: whole ? "ok" : isUnknown ? "trouble" : "attention",
    answer: capital(
      loss.records && !preview.source
        ? `${about}${format.counted(loss.records, "record")}`
        : isUnknown
          ? "not known"
          : "none",
    ),
    detail: preview.source
      ? `the source does not answer: ${preview.source}`
      : details.filter(Boolean).join(", ") || "the target has every committed record",
  });
}

function groupsTile(found) {
  const wrong = found.groups_not_exact;
  const missing = Object.entries(found.preview.standing.missing);
  const unknown = missing.map(([name, why]) => `${name}: ${why}`);
  return tile({
    question: "Consumer groups",
    health: found.equal ? "ok" : "trouble",
    answer: found.equal
      ? "All exact"
      : missing.length
        ? "Not all are known"
        : `${format.whole(wrong.length)} not exact`,
    detail:
      [...unknown, ...wrong].slice(0, 5).join(", ") ||
      `${format.counted(found.groups, "group")}: none skips or repeats a record`,
  });
}

function missedTile({ source, readiness }) {
  const { unready, unknown } = readiness;
  const isUnknown = Boolean(source || unknown.length);
  return tile({
    question: "What applications miss",
    health: unready.length || isUnknown ? "attention" : "ok",
    answer: unready.length ? format.counted(unready.length, "thing") : isUnknown ? "Not known" : "Nothing",
    detail: source
      ? "the source does not answer"
      : unknown.length
        ? `not known: ${unknown[0]}`
        : "rights, topics, replicas, sizes on the target",
  });
}

function capital(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}`;
}

function lossTable(losses) {
  const heads = [
    ["Topic"],
    ["Records", "number"],
    ["Bytes", "number"],
    ["Oldest", "number"],
    ["Torn transactions", "number"],
    ["Refused by the target", "number"],
    ["Partitions not known", "number"],
  ];
  const rows = [...losses].sort((one, other) => other.records - one.records || other.unknown - one.unknown);
  return [
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Losses by topic" },
      h(
        "table",
        { class: "plain-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map(([head, kind]) => h("th", { scope: "col", class: kind }, head)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.slice(0, MOST_ROWS).map((one) => {
            const about = one.is_exact || !one.records ? "" : "~";
            return h(
              "tr",
              { key: one.topic },
              h("th", { scope: "row" }, one.topic),
              h("td", { class: "number" }, `${about}${format.whole(one.records)}`),
              h("td", { class: "number" }, `${about}${format.size(one.bytes)}`),
              h("td", { class: "number" }, one.seconds < 0 ? "not known" : format.duration(one.seconds)),
              h("td", { class: "number" }, format.whole(one.torn)),
              h("td", { class: "number" }, format.whole(one.left_out)),
              h("td", { class: "number" }, format.whole(one.unknown)),
            );
          }),
        ),
      ),
    ),
    rows.length > MOST_ROWS
      ? h("p", { class: "soft" }, `and ${format.counted(rows.length - MOST_ROWS, "more topic")}`)
      : null,
  ];
}

function unready(rows) {
  return h(
    "ul",
    { class: "troubles" },
    rows
      .slice(0, MOST_ROWS)
      .map((one) =>
        h("li", { class: "attention" }, icon("attention"), h("span", {}, h("b", {}, one.subject), ` ${one.why}`)),
      ),
  );
}

function sorted(stands) {
  return [...stands].sort((one, other) => Number(!one.why) - Number(!other.why));
}
