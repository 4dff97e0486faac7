/**
 * The three answers to the person on duty, of a mirror or of one flow: is it whole, how much would be lost now, may I fail
 * over. What is not known is never shown as good.
 */

import { asOf, lossDetail, lossText, worstText } from "./words.js";
import { h } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";
import { tile } from "../parts/parts.js";

/** The tiles of the three answers; `one`: the mirror of the flows, or the only flow. */
export function answerTiles(one, flows, store) {
  return h(
    "div",
    { class: "tiles" },
    whole(flows, store.now()),
    loss(one, missed(flows), leftOut(flows)),
    failover(flows, store),
  );
}

/** Is it whole? What has stopped or differs comes first; then how old the proof is. */
export function whole(flows, now) {
  const [health, answer, detail] = damage(flows) ?? unproven(flows, now) ?? proven(flows, now);
  return tile({ question: "Is it whole?", health, answer, detail });
}

function damage(flows) {
  const differences = sum(flows, (flow) => flow.proof?.differences ?? 0);
  if (differences) return ["trouble", "No", `${format.counted(differences, "difference")} found by the proof`];
  const stopped = sum(flows, (flow) => flow.failed);
  if (stopped) return ["trouble", "No", `${partitionsThat(stopped, "has", "have")} stopped on an error`];
  const quarantined = sum(flows, (flow) => Object.keys(flow.quarantined).length);
  if (quarantined) return ["trouble", "No", `${partitionsThat(quarantined, "is", "are")} in quarantine`];
  const left = leftOut(flows);
  if (!left) return null;
  const what = `the target refused ${format.counted(left, "record")}; raymirror quarantine list names them`;
  return ["attention", "But for records left out", what];
}

function unproven(flows, now) {
  const proofs = flows.map((flow) => flow.proof);
  if (!flows.length || proofs.some((proof) => !proof)) {
    const still = sum(flows, (flow) => flow.stalled);
    const what = still ? `${partitionsThat(still, "does", "do")} not move` : "No partition has stopped";
    return ["off", "Not proven", `${what}. Continuous proof is off (raymirror.proof)`];
  }
  const failed = proofs.find((proof) => proof.trouble);
  if (failed) return ["attention", "Not proven lately", failed.trouble];
  if (proofs.some((proof) => proof.at_ms === null))
    return ["off", "Not proven yet", "the first round of the proof has not ended"];
  const nothing = sum(flows, (flow) => Math.max(0, flow.partitions - flow.proof.partitions));
  if (!nothing) return null;
  const what = `nothing is proven of ${format.counted(nothing, "partition")} yet; the others ${oldestProof(flows, now)}`;
  return ["attention", "Not proven everywhere", what];
}

function proven(flows, now) {
  return ["ok", "Yes", `proven record by record ${oldestProof(flows, now)}`];
}

function oldestProof(flows, now) {
  const atMs = Math.min(...flows.map((flow) => flow.proof.at_ms));
  return `${format.age((now - atMs) / 1000)} ago`;
}

function sum(flows, count) {
  return flows.reduce((total, flow) => total + count(flow), 0);
}

/** "1 partition has", "3 partitions have". */
export function partitionsThat(count, one, many) {
  return format.counted(count, `partition ${one}`, `partitions ${many}`);
}

/** How many records the targets have refused since the mirror started. */
function leftOut(flows) {
  return sum(flows, (flow) => flow.left_out);
}

/**
 * How much would be lost now, of a mirror or of a flow; `missing`: which objective is missed, in words; `left`: how many
 * records were refused.
 */
function loss(one, missing, left) {
  const { rpo } = one;
  const objective = one.rpo_objective_seconds ? `objective ${format.duration(one.rpo_objective_seconds)}` : "";
  return tile({
    question: "What would I lose now?",
    health: missing || one.health === "trouble" ? "trouble" : rpo.records === null || left ? "attention" : "ok",
    answer: format.capital(lossText(rpo)),
    detail: [lossDetail(rpo, left), asOf(rpo), worstText(one.worst_rpo), missing || objective]
      .filter(Boolean)
      .join("; "),
  });
}

/** Says which flows miss their objectives; empty if none does. */
function missed(flows) {
  const late = flows.filter(
    (flow) => flow.rpo_objective_seconds && flow.rpo.least_seconds > flow.rpo_objective_seconds,
  );
  if (!late.length) return "";
  if (flows.length === 1) return `more than the objective, ${format.duration(late[0].rpo_objective_seconds)}`;
  const names = late.map((flow) => format.flow(flow.flow)).join(" and ");
  return `${names} ${late.length === 1 ? "misses its objective" : "miss their objectives"}`;
}

/** May I fail over? What speaks against it, by what the mirror knows; the preview asks both clusters. */
export function failover(flows, store) {
  const only = flows.length === 1 ? flows[0] : null;
  const link = only ? { href: path("flows", only.flow, "failover"), link: "Compute the loss" } : {};
  const [health, answer, detail] = mayFailOver(flows, only, store);
  return tile({ question: "May I fail over?", health, answer, detail, ...(flows.length ? link : {}) });
}

function mayFailOver(flows, only, store) {
  if (!flows.length) return ["off", "There is no flow", ""];
  const copying = flows.filter((flow) => flow.state !== "failed_over");
  if (!copying.length) return ["off", "It is done", "the consumers use the target"];
  const against = copying.flatMap((flow) =>
    reasons(flow).map((why) => (only ? why : `${format.flow(flow.flow)}: ${why}`)),
  );
  if (against.length) {
    const rest = against.length > 1 ? `, and ${format.counted(against.length - 1, "more reason")}` : "";
    const health = copying.some((flow) => flow.health === "trouble") ? "trouble" : "attention";
    return [health, doubt(copying), `${against[0]}${rest}`];
  }
  const seen = copying.map((flow) => store.previews.get(flow.flow));
  const missing = seen.reduce((total, one) => total + (one?.missing ?? 0), 0);
  const isLossy = copying.some((flow) => flow.rpo.records !== 0);
  return [
    missing || missed(flows) ? "attention" : "ok",
    isLossy ? "Yes, with that loss" : missing ? "Yes, but something is missing" : "Yes",
    `each group${only ? "" : " of each flow"} is translated exactly; ${readiness(seen, missing)}`,
  ];
}

/** What is certain of a failover that something speaks against: a loss that is not known is not called one. */
function doubt(flows) {
  if (flows.some((flow) => flow.rpo.least_records)) return "Not without loss";
  if (flows.some((flow) => flow.rpo.records === null)) return "The loss is not known";
  return "Look first";
}

/** Says whether somebody has looked, on this page, at what producers and consumers need on the target. */
function readiness(seen, missing) {
  const at = seen.filter(Boolean).map((one) => one.atMs);
  if (at.length < seen.length || !seen.length) return "readiness of the target was not looked at: the preview does";
  const found = missing
    ? `that applications miss ${format.counted(missing, "thing")} there`
    : "nothing that applications miss";
  return `the preview of ${format.clock(Math.min(...at))} showed ${found}`;
}

function reasons(flow) {
  const paused = flow.paused_topics.length;
  return [
    flow.unknown ? `the lag of ${format.counted(flow.unknown, "partition")} is not known` : "",
    flow.failed ? `${partitionsThat(flow.failed, "has", "have")} stopped` : "",
    flow.stalled ? `${partitionsThat(flow.stalled, "does", "do")} not move` : "",
    flow.rpo.records === null && !flow.unknown && !flow.waiting_for ? "what would be lost is not known" : "",
    flow.state === "paused" ? "it is paused" : "",
    flow.state === "stopped" ? "it is stopped" : "",
    paused ? `${format.counted(paused, "topic is", "topics are")} paused` : "",
    ...flow.groups_not_ready,
    flow.waiting_for ? `it waits for ${flow.waiting_for}` : "",
  ].filter(Boolean);
}
