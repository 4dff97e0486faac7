/** Sentences about a flow that pages share: its loss, its proof, what is not known of it yet. */

import * as format from "../base/format.js";

/** How many records a loss of the source would cost. */
export function lossText(rpo) {
  if (rpo.records === null) {
    return rpo.least_records ? `at least ${format.counted(rpo.least_records, "record")}` : "not known";
  }
  return rpo.records ? format.counted(rpo.records, "record") : "nothing";
}

/** Size and age of the loss, in one line; `left`: how many records the target has refused. */
export function lossDetail(rpo, left = 0) {
  if (rpo.records === null) {
    return rpo.least_seconds
      ? `the oldest at least ${format.age(rpo.least_seconds)} old`
      : "the source does not say where it ends";
  }
  if (!rpo.records) {
    const besides = left ? `, besides ${format.counted(left, "record")} that it refused` : "";
    return `every record that the source had is on the target${besides}`;
  }
  return [
    rpo.bytes === null ? null : format.size(rpo.bytes),
    rpo.seconds === null ? null : `the oldest ${format.duration(rpo.seconds)} old`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** As of when a loss is known: what was written since then comes on top. */
export function asOf(rpo) {
  return rpo.as_of_seconds === null ? "" : `as of ${format.age(rpo.as_of_seconds)} ago`;
}

/** The worst loss of the last minutes, in one line. */
export function worstText(worst) {
  if (worst.records === null && worst.seconds === null) return "worst: not known";
  const parts = [
    worst.records === null ? null : format.counted(worst.records, "record"),
    worst.seconds === null ? null : format.duration(worst.seconds),
  ];
  return `worst in 15 min: ${parts.filter(Boolean).join(", ")}`;
}

/** How long ago the last proof was, in one line. */
export function proofText(proof, now) {
  if (!proof) return "continuous proof is off";
  if (proof.trouble) return `the last round failed: ${proof.trouble}`;
  if (proof.at_ms === null) return "no round has ended yet";
  return `${format.age((now - proof.at_ms) / 1000)} ago`;
}

/** Why a list has no row yet although the flow has some; empty if it is complete. */
export function notDiscovered(found, what) {
  return found.not_discovered ? `${what} not known yet: the flow waits for ${found.not_discovered}.` : "";
}
