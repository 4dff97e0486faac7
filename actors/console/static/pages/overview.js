/** The first page: is it whole, how much would be lost now, may I fail over; then each flow, and what has happened. */

import { sparkline } from "../chart.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { icon } from "../icons.js";
import { clusterMap } from "../map.js";
import { asOf, eventList, loading, lossDetail, lossText, panel, proofText, stateBadge, tile, worstText } from "../parts.js";
import { path } from "../router.js";

const MOST_EVENTS = 8;

export class OverviewPage {
  constructor(app) {
    this.app = app;
  }

  title() {
    return "Overview";
  }

  view() {
    const { store } = this.app;
    const { mirror } = store;
    if (!mirror) return [h("h1", { class: "verdict" }, "Overview"), loading()];
    const flows = [...store.flows.values()];
    return [
      verdict(mirror, flows),
      mirror.unremembered.length
        ? h(
            "p",
            { class: "notice attention" },
            icon("attention"),
            h("span", {}, `Not stored on the target yet: what was last wanted of ${mirror.unremembered.join(", ")}.`),
          )
        : null,
      h("div", { class: "tiles" }, whole(flows, store.now()), loss(mirror, missed(flows), leftOut(flows)), failover(flows, store)),
      panel("Clusters and flows", { class: "map-panel" }, clusterMap(store.clusters, flows)),
      panel("Flows", {}, this.#table(flows)),
      panel(
        "What has happened",
        { tools: h("a", { href: path("events") }, "All events") },
        eventList(store.events.slice(-MOST_EVENTS).reverse()),
      ),
    ];
  }

  #table(flows) {
    if (!flows.length) return h("p", { class: "soft" }, "The configuration has no flow.");
    const { store } = this.app;
    const heads = ["Flow", "State", "Loss now", "Behind", "Worst", "Rate", "Proof", "Lag, 15 min"];
    return h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Flows" },
      h(
        "table",
        { class: "plain-table flows" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((head, at) => h("th", { scope: "col", class: at > 1 && at < 6 ? "number" : null }, head)),
          ),
        ),
        h(
          "tbody",
          {},
          flows.map((flow) =>
            h(
              "tr",
              { key: flow.flow },
              h("th", { scope: "row" }, h("a", { href: path("flows", flow.flow) }, flow.flow.replace("->", " → "))),
              h("td", {}, stateBadge(flow)),
              h("td", { class: "number" }, lossText(flow.rpo)),
              h("td", { class: "number" }, flow.rpo.seconds === null ? "not known" : format.duration(flow.rpo.seconds)),
              h(
                "td",
                { class: "number" },
                flow.worst_rpo.seconds === null ? "–" : format.duration(flow.worst_rpo.seconds),
              ),
              h("td", { class: "number" }, `${format.short(flow.records_per_second)}/s`),
              h("td", {}, flow.proof ? proofText(flow.proof, store.now()) : "off"),
              h(
                "td",
                { class: "spark-cell" },
                sparkline(store.seriesOf(flow.flow), "lag_seconds", `lag of ${flow.flow}`),
              ),
            ),
          ),
        ),
      ),
    );
  }
}

/** The health of the mirror in one sentence; what more there is to say stands below it. */
function verdict(mirror, flows) {
  const end = mirror.sentence.search(/\.\s/) + 1 || mirror.sentence.length;
  const rest = mirror.sentence.slice(end).trim();
  return [
    h("h1", { class: `verdict ${mirror.health}` }, icon(mirror.health), h("span", {}, mirror.sentence.slice(0, end))),
    rest ? h("p", { class: "verdict-more" }, rest) : null,
    details(flows),
  ];
}

/** What each flow that needs a look says about itself, behind one line. */
function details(flows) {
  const told = flows
    .filter((flow) => flow.health === "trouble" || flow.health === "attention")
    .flatMap((flow) =>
      [flow.waiting_for ? `waiting for ${flow.waiting_for}` : "", ...flow.notes]
        .filter(Boolean)
        .map((note) => [format.flow(flow.flow), note]),
    );
  if (!told.length) return null;
  return h(
    "details",
    { class: "verdict-details", key: "verdict-details" },
    h("summary", {}, "Details"),
    h(
      "ul",
      {},
      told.map(([flow, note]) => h("li", {}, h("b", {}, flow), ` ${note}`)),
    ),
  );
}

/** Is it whole? What has stopped or differs comes first; then how old the proof is. */
export function whole(flows, now) {
  const question = "Is it whole?";
  const sum = (name) => flows.reduce((total, flow) => total + flow[name], 0);
  const differences = flows.reduce((total, flow) => total + (flow.proof?.differences ?? 0), 0);
  const stopped = sum("failed");
  const quarantined = flows.reduce((total, flow) => total + Object.keys(flow.quarantined).length, 0);
  const left = leftOut(flows);
  if (differences)
    return tile({
      question,
      health: "trouble",
      answer: "No",
      detail: `${format.counted(differences, "difference")} found by the proof`,
    });
  if (stopped)
    return tile({
      question,
      health: "trouble",
      answer: "No",
      detail: `${format.counted(stopped, "partition has", "partitions have")} stopped on an error`,
    });
  if (quarantined)
    return tile({
      question,
      health: "trouble",
      answer: "No",
      detail: `${format.counted(quarantined, "partition is", "partitions are")} in quarantine`,
    });
  if (left)
    return tile({
      question,
      health: "attention",
      answer: "But for records left out",
      detail: `the target refused ${format.counted(left, "record")}; raymirror quarantine list names them`,
    });
  const still = sum("stalled");
  const proofs = flows.map((flow) => flow.proof);
  if (!flows.length || proofs.some((proof) => !proof))
    return tile({
      question,
      health: "off",
      answer: "Not proven",
      detail: `${still ? `${format.counted(still, "partition does", "partitions do")} not move` : "No partition has stopped"}. Continuous proof is off (raymirror.proof)`,
    });
  const failed = proofs.find((proof) => proof.trouble);
  if (failed) return tile({ question, health: "attention", answer: "Not proven lately", detail: failed.trouble });
  if (proofs.some((proof) => proof.at_ms === null))
    return tile({
      question,
      health: "off",
      answer: "Not proven yet",
      detail: "the first round of the proof has not ended",
    });
  const oldest = Math.min(...proofs.map((proof) => proof.at_ms));
  const unproven = flows.reduce((total, flow) => total + Math.max(0, flow.partitions - flow.proof.partitions), 0);
  if (unproven)
    return tile({
      question,
      health: "attention",
      answer: "Not proven everywhere",
      detail: `nothing is proven of ${format.counted(unproven, "partition")} yet; the others ${format.age((now - oldest) / 1000)} ago`,
    });
  return tile({
    question,
    health: "ok",
    answer: "Yes",
    detail: `proven record by record ${format.age((now - oldest) / 1000)} ago`,
  });
}

/** How many records the targets have refused since the mirror started. */
export function leftOut(flows) {
  return flows.reduce((total, flow) => total + flow.left_out, 0);
}

/**
 * How much would be lost now, of a mirror or of a flow; `missed`: which objective is missed, in words; `left`: how many
 * records were refused.
 */
export function loss(one, missed = "", left = 0) {
  const { rpo } = one;
  const answer = rpo.records === 0 ? "nothing" : lossText(rpo);
  const objective = one.rpo_objective_seconds ? `objective ${format.duration(one.rpo_objective_seconds)}` : "";
  return tile({
    question: "What would I lose now?",
    health: missed || one.health === "trouble" ? "trouble" : rpo.records === null || left ? "attention" : "ok",
    answer: answer[0].toUpperCase() + answer.slice(1),
    detail: [lossDetail(rpo, left), asOf(rpo), worstText(one.worst_rpo), missed || objective].filter(Boolean).join("; "),
  });
}

/** Says which flows miss their objectives; empty if none does. */
export function missed(flows) {
  const late = flows.filter(
    (flow) => flow.rpo_objective_seconds && flow.rpo.least_seconds > flow.rpo_objective_seconds,
  );
  if (!late.length) return "";
  if (flows.length === 1) return `more than the objective, ${format.duration(late[0].rpo_objective_seconds)}`;
  return `${late.map((flow) => format.flow(flow.flow)).join(" and ")} ${late.length === 1 ? "misses its objective" : "miss their objectives"}`;
}

/** May I fail over? What speaks against it, by what the mirror knows; the preview asks both clusters. */
export function failover(flows, store) {
  const question = "May I fail over?";
  const only = flows.length === 1 ? flows[0] : null;
  const more = only ? { href: path("flows", only.flow, "failover"), link: "Compute the loss" } : {};
  if (!flows.length) return tile({ question, health: "off", answer: "There is no flow", detail: "" });
  if (flows.every((flow) => flow.state === "failed_over"))
    return tile({ question, health: "off", answer: "It is done", detail: "the consumers use the target", ...more });
  const copying = flows.filter((flow) => flow.state !== "failed_over");
  const against = copying.flatMap((flow) =>
    reasons(flow).map((why) => (only ? why : `${format.flow(flow.flow)}: ${why}`)),
  );
  if (against.length) {
    const rest = against.length > 1 ? `, and ${format.counted(against.length - 1, "more reason")}` : "";
    const health = copying.some((flow) => flow.health === "trouble") ? "trouble" : "attention";
    return tile({ question, health, answer: doubt(copying), detail: `${against[0]}${rest}`, ...more });
  }
  const lost = flows.some((flow) => flow.state !== "failed_over" && flow.rpo.records !== 0);
  const seen = copying.map((flow) => store.previews.get(flow.flow));
  const missing = seen.reduce((total, one) => total + (one?.missing ?? 0), 0);
  return tile({
    question,
    health: missing || missed(flows) ? "attention" : "ok",
    answer: lost ? "Yes, with that loss" : missing ? "Yes, but something is missing" : "Yes",
    detail: `each group${only ? "" : " of each flow"} is translated exactly; ${readiness(seen, missing)}`,
    ...more,
  });
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
  const found = missing ? `that applications miss ${format.counted(missing, "thing")} there` : "nothing that applications miss";
  return `the preview of ${format.clock(Math.min(...at))} showed ${found}`;
}

function reasons(flow) {
  return [
    flow.unknown ? `the lag of ${format.counted(flow.unknown, "partition")} is not known` : "",
    flow.failed ? `${format.counted(flow.failed, "partition has", "partitions have")} stopped` : "",
    flow.stalled ? `${format.counted(flow.stalled, "partition does", "partitions do")} not move` : "",
    flow.rpo.records === null && !flow.unknown && !flow.waiting_for ? "what would be lost is not known" : "",
    flow.state === "paused" ? "it is paused" : "",
    flow.state === "stopped" ? "it is stopped" : "",
    flow.paused_topics.length ? `${format.counted(flow.paused_topics.length, "topic is", "topics are")} paused` : "",
    ...flow.groups_not_ready,
    flow.waiting_for ? `it waits for ${flow.waiting_for}` : "",
  ].filter(Boolean);
}
