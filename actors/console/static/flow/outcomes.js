/** What commands have found or done, in sentences. */

import * as format from "../base/format.js";

/** What a run has found or done, in sentences; none while nothing is known. */
export function outcome(run) {
  if (typeof run.result === "string") return run.result.trimEnd().split("\n"); // a command line has asked for text
  return run.result ? (OUTCOMES[run.kind]?.(run.result, run) ?? []) : [];
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
      (one) =>
        `${one.flow}: ${one.whole ? "whole" : "not proven whole"}, ${format.counted(differencesOf(one), "difference")}.`,
    ),
  replay: (found) => [
    `${format.counted(found.replayed, "record")} replayed.`,
    ...found.results.filter((one) => one.why_not).map((one) => `${one.record}: not replayed: ${one.why_not}`),
  ],
  move: (found, run) =>
    found.refused?.length
      ? found.refused.map((one) => `${one.name}: ${one.why}`)
      : [
          run.dry_run ? "The group could be moved now." : "The group is moved: start its consumers on the target.",
          ...(found.advice ?? []),
        ],
  "move-undo": (found) => (found.undone ? ["Start its consumers on the source again."] : []),
  drop: (found) => [`${format.counted(found.dropped.length, "record")} dropped.`],
  drill: (found) => [
    found.passed
      ? "A failover would have gone well."
      : found.failed
        ? `The drill did not finish: ${found.failed}`
        : "A failover would have hurt:",
    found.rto_s < 0
      ? "How long it would have taken is not known."
      : `It would have taken ${format.duration(found.rto_s)}, and the pause and stop of the flow.`,
    ...(found.findings ?? []).slice(0, 20).map((one) => `${one.subject}: ${one.why}`),
  ],
};

const differencesOf = (proof) => proof.lanes.reduce((sum, lane) => sum + lane.differences, 0); // its list may be cut

/** What speaks against an operation, in sentences; says so too if nothing does. */
function reasonsOf(reasons) {
  if (!reasons?.length) return ["Nothing is in the way, as of this check."];
  return reasons.map(([name, why]) => `${name}: ${why}`);
}

function operation(found) {
  return found ? [`${found.kind} ${found.id}: ${found.state}`] : [];
}
