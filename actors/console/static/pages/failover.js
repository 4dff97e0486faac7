/**
 * What a failover would lose now, and failover, switchover, failback and drill themselves. Each dialog computes or checks
 * first and asks to type the name of the flow. What is started is a command of its own, which outlives this server.
 */

import { FlowTab } from "./page.js";
import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { failBack, Form, switchOver } from "../flow/operate.js";
import { Past } from "../flow/past.js";
import { Runs } from "../flow/runs.js";
import { standTable } from "../flow/stands.js";
import { confirm } from "../parts/dialog.js";
import {
  actions,
  button,
  computing,
  loading,
  note,
  notice,
  panel,
  reasonsPanel,
  refusal,
  subHead,
  tile,
} from "../parts/parts.js";
import { plainTable } from "../parts/plaintable.js";

export class FailoverPage extends FlowTab {
  static tab = "failover";

  constructor(app, params) {
    super(app, params);
    this.form = null; // the dialog of a failover, while it is open
    this.preview = this.addLoader((signal) => this.#load(signal), { changed: () => this.#changed() });
    this.runs = this.add(new Runs(app, this.flow));
    this.past = new Past(this);
  }

  /** Computes the loss; the answer may take seconds, because both clusters are asked. */
  async #load(signal) {
    const found = await api.get(api.of(this.flow, "failover-preview"), signal);
    const { unready, unknown } = found.preview.readiness;
    this.app.store.previews.set(this.flow, { atMs: found.at_ms, missing: unready.length + unknown.length });
    return found;
  }

  #changed() {
    this.form?.update();
    this.app.update();
  }

  body() {
    const isOver = this.app.store.flow(this.flow)?.failed_over;
    return [
      this.runs.view(this.#ways()),
      subHead("If the source were gone now", "Failover", ...this.#buttons(isOver)),
      isOver
        ? notice(
            "off",
            "This flow was failed over: its consumers use the target. What follows is what only the source has now.",
          )
        : null,
      this.preview.view(previewView, {
        waiting: loading("Asking both clusters: what the source has and the target does not…"),
      }),
      this.preview.isAnswered ? this.past.view() : null,
    ];
  }

  #buttons(isOver) {
    const why = this.runs.whyNot("admin");
    const whyNoFailover = isOver ? "It was failed over already" : this.runs.running ? "A command runs" : "";
    return [
      this.preview.button("Compute again"),
      button("Drill…", () => this.#drill(), { sign: "restart", why }),
      isOver
        ? button("Fail back…", () => failBack(this), { sign: "failover", why })
        : button("Switch over…", () => switchOver(this), { sign: "failover", why }),
      button("Fail over…", () => this.#failover(), { sign: "failover", kind: "danger", why: whyNoFailover }),
    ];
  }

  /** Fails over: computes the loss, asks for the name of the flow, then starts the command. */
  async #failover() {
    const form = new Form(this, `Fail over ${this.flow}`, () => this.#failoverDialog(form));
    this.form = form;
    const opened = form.open();
    await this.preview.ask();
    await opened;
    if (this.form === form) this.form = null; // else it was opened once more meanwhile
  }

  #failoverDialog(form) {
    const { found, isBusy, refused } = this.preview;
    return [
      h("h2", {}, `Fail over ${this.flow}?`),
      isBusy ? computing("Computing the loss: asking both clusters…") : null,
      refused && !isBusy ? refusal(`The loss is not known: ${refused}`) : null,
      found && !isBusy && !refused ? lossNotice(found) : null,
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
      form.fields({ verb: "Fail over", isReady: !isBusy }, () => this.runs.begin("failover"), [
        "raymirror",
        "failover",
        this.flow,
      ]),
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
    const isOpen =
      run && ["failed", "lost"].includes(run.state) && ["switchover", "resume", "abort"].includes(run.kind);
    if (!isOpen || run.dry_run || !this.app.may("admin")) return null;
    const why = this.runs.whyNot("admin");
    const goOn = () => this.#again("operation/resume", "Go on", "Goes on with the step that has failed.");
    const takeBack = () =>
      this.#again("operation/abort", "Take back", "Takes the steps back, the last one first; the source serves again.");
    return actions(
      "What to do now",
      button("Go on", goOn, { sign: "play", why }),
      button("Take back", takeBack, { sign: "restart", why }),
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
}

/** The loss in one sentence, in the dialog that fails over. */
function lossNotice(found) {
  return notice(
    found.whole && found.equal ? "ok" : "trouble",
    `As of ${format.clock(found.at_ms)}: ${found.sentence}. ${groupsText(found)} What the source gets from then on comes on top.`,
  );
}

function groupsText(found) {
  const missing = Object.keys(found.preview.standing.missing).length;
  if (missing) return "Not all consumer groups are known.";
  if (!found.groups) return "There is no consumer group.";
  if (found.equal) return `${format.counted(found.groups, "group")} would continue exactly.`;
  return `${format.whole(found.groups_not_exact.length)} of ${format.counted(found.groups, "group")} would not continue exactly.`;
}

function previewView(found) {
  const { losses, readiness, standing } = found.preview;
  const lost = losses.filter((one) => one.records || one.unknown || one.left_out);
  const unready = readiness.unready.map((one) => [one.subject, one.why]);
  const took = format.duration(found.took_seconds);
  return [
    answers(found),
    note(`Read from both clusters in ${took} at ${format.clock(found.at_ms)}. Nothing was changed.`),
    lost.length ? panel("What would be lost", {}, lossTable(lost)) : null,
    reasonsPanel("What applications would miss on the target", unready, "attention"),
    reasonsPanel(
      "Not known",
      readiness.unknown.map((why) => [why, ""]),
      "attention",
    ),
    reasonsPanel("Groups that could not be read", Object.entries(standing.failed), "trouble"),
    standing.stands.length ? panel("Where each group stands", {}, standTable(worstFirst(standing.stands))) : null,
  ];
}

function worstFirst(stands) {
  return [...stands].sort((one, other) => Number(!one.why) - Number(!other.why));
}

/** The three answers of a preview. What is not known is never shown as nothing. */
export function answers(found) {
  return h("div", { class: "tiles" }, lostTile(found), groupsTile(found), missedTile(found.preview));
}

function lostTile({ loss, preview, whole }) {
  const unread = Object.keys(preview.unread).length;
  const isUnknown = Boolean(preview.source || unread || loss.unknown_partitions);
  const about = `${isUnknown ? "at least " : ""}${loss.exact ? "" : "about "}`;
  const some = loss.records && !preview.source ? `${about}${format.counted(loss.records, "record")}` : "";
  const details = [
    loss.records ? format.size(loss.bytes) : "",
    loss.records && loss.seconds ? `the oldest ${format.duration(loss.seconds)} old` : "",
    loss.unknown_partitions ? `${format.counted(loss.unknown_partitions, "partition")} not known` : "",
    unread ? "not all positions could be read" : "",
  ];
  return tile({
    question: "Lost records",
    health: whole ? "ok" : isUnknown ? "trouble" : "attention",
    answer: format.capital(some || (isUnknown ? "not known" : "none")),
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

function lossTable(losses) {
  const about = (one) => (one.is_exact || !one.records ? "" : "~");
  const known = (value, written) => (value < 0 ? "not known" : written(value)); // the source does not answer
  const rows = [...losses].sort((one, other) => other.records - one.records || other.unknown - one.unknown);
  return plainTable({
    label: "Losses by topic",
    word: "topic",
    rows,
    keyOf: (one) => one.topic,
    columns: [
      { head: "Topic", cell: (one) => one.topic },
      {
        head: "Records",
        number: true,
        cell: (one) => known(one.records, (count) => `${about(one)}${format.whole(count)}`),
      },
      { head: "Bytes", number: true, cell: (one) => known(one.bytes, (size) => `${about(one)}${format.size(size)}`) },
      { head: "Oldest", number: true, cell: (one) => known(one.seconds, format.duration) },
      { head: "Torn transactions", number: true, cell: (one) => known(one.torn, format.whole) },
      { head: "Refused by the target", number: true, cell: (one) => known(one.left_out, format.whole) },
      { head: "Partitions not known", number: true, cell: (one) => format.whole(one.unknown) },
    ],
  });
}
