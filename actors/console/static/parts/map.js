/** Draws the clusters of a mirror and the flows between them: sources on the left, targets on the right. */

import { flowLink } from "./parts.js";
import { h, s } from "../base/dom.js";
import * as format from "../base/format.js";
import { path } from "../base/router.js";

const BOX = { width: 196, height: 62 };
const GAP_X = 240;
const GAP_Y = 34;
const EDGE = 14;
const PORTS_APART = 26;
const LABEL_AT = 0.6; // of the way: lines that leave one cluster have parted there

/**
 * Returns where each cluster stands: by name `{column, row}`. A cluster stands right of the clusters that it copies from;
 * flows in a circle (A->B, B->A) are taken in their order.
 */
export function layout(clusters, flows) {
  const column = new Map(clusters.map((one) => [one.name, 0]));
  const into = new Map(clusters.map((one) => [one.name, []]));
  const reaches = (from, to, seen = new Set()) => {
    if (from === to) return true;
    if (seen.has(from)) return false;
    seen.add(from);
    return [...into].some(([name, sources]) => sources.includes(from) && reaches(name, to, seen));
  };
  for (const { source, target } of flows) {
    if (into.has(source) && into.has(target) && !reaches(target, source)) into.get(target).push(source);
  }
  for (let round = 0; round < clusters.length; round += 1) {
    for (const [name, sources] of into) {
      for (const source of sources) column.set(name, Math.max(column.get(name), column.get(source) + 1));
    }
  }
  const rows = new Map();
  return new Map(
    clusters.map((one) => {
      const at = column.get(one.name);
      const row = rows.get(at) ?? 0;
      rows.set(at, row + 1);
      return [one.name, { column: at, row }];
    }),
  );
}

/** Draws the map; a flow leads to its page. On a phone it becomes a list. */
export function clusterMap(clusters, flows) {
  const places = layout(clusters, flows);
  const { width, height, spot } = canvas(places, flows);
  const known = flows.filter((flow) => places.has(flow.source) && places.has(flow.target));
  const touches = ports(known, places, spot);
  const label = "Clusters and the flows between them";
  return [
    h(
      "div",
      { class: "map", key: "map" },
      s(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label },
        known.map((flow) => drawFlow(flow, touches.get(flow.flow))),
        clusters.map((one) => drawCluster(one, spot(one.name))),
      ),
    ),
    h(
      "ul",
      { class: "map-list", key: "list" },
      flows.map((flow) => h("li", { class: flow.health }, flowLink(flow.flow), ` ${labelOf(flow)}`)),
    ),
  ];
}

/** The size of the map, and where each cluster is in it. */
function canvas(places, flows) {
  const all = [...places.values()];
  const columns = 1 + Math.max(0, ...all.map((one) => one.column));
  const counts = Array.from({ length: columns }, (_, at) => all.filter((one) => one.column === at).length);
  const most = Math.max(1, ...counts);
  const turns = flows.some((flow) => places.get(flow.source)?.column === places.get(flow.target)?.column);
  return {
    width: 2 * EDGE + (turns ? 140 : 0) + columns * BOX.width + (columns - 1) * GAP_X,
    height: 2 * EDGE + most * BOX.height + (most - 1) * GAP_Y,
    spot: (name) => {
      const { column, row } = places.get(name);
      const free = (most - counts[column]) * (BOX.height + GAP_Y);
      return { x: EDGE + column * (BOX.width + GAP_X), y: EDGE + free / 2 + row * (BOX.height + GAP_Y) };
    },
  };
}

/** What stands on the line of a flow. */
function labelOf(flow) {
  if (flow.state !== "running") return flow.state.replace("_", " ");
  return flow.rpo.seconds === null
    ? "lag not known"
    : flow.rpo.records
      ? `${format.duration(flow.rpo.seconds)} behind`
      : "in step";
}

function drawCluster(cluster, { x, y }) {
  const name = format.middle(cluster.name, 20);
  const more = cluster.bootstrap.length > 1 ? ` +${cluster.bootstrap.length - 1}` : "";
  const servers = format.middle(cluster.bootstrap[0] ?? "", 26 - more.length);
  return s(
    "g",
    { class: "map-cluster", transform: `translate(${x} ${y})` },
    s(
      "title",
      {},
      [cluster.name, cluster.id ? `id ${cluster.id}` : "", ...cluster.bootstrap].filter(Boolean).join("\n"),
    ),
    s("rect", { width: BOX.width, height: BOX.height, rx: 9 }),
    s("text", { class: "map-name", x: 14, y: 27 }, name),
    s("text", { class: "map-servers", x: 14, y: 46 }, servers + more),
  );
}

/**
 * Returns where each flow touches its clusters: by flow `{from, to}`, each `{x, y}`. Lines at one side of a cluster are in
 * the order of where they lead, so that they do not cross.
 */
function ports(flows, places, spot) {
  const sides = new Map(); // the ends at each side of each cluster
  const found = new Map();
  const add = (flow, end, name, other, isLeft) => {
    const key = `${name} ${isLeft}`;
    if (!sides.has(key)) sides.set(key, []);
    sides
      .get(key)
      .push({ flow, end, other, x: spot(name).x + (isLeft ? 0 : BOX.width), y: spot(name).y + BOX.height / 2 });
  };
  for (const flow of flows) {
    const way = places.get(flow.target).column - places.get(flow.source).column;
    found.set(flow.flow, { turns: way === 0 });
    add(flow, "from", flow.source, flow.target, way < 0);
    add(flow, "to", flow.target, flow.source, way > 0);
  }
  for (const ends of sides.values()) {
    const pair = (one) => (one.flow.source < one.flow.target ? 0 : 1);
    ends.sort((one, other) => spot(one.other).y - spot(other.other).y || pair(one) - pair(other));
    const apart = Math.min(PORTS_APART, (BOX.height - 14) / Math.max(1, ends.length - 1));
    ends.forEach(({ flow, end, x, y }, at) => {
      found.get(flow.flow)[end] = { x, y: y + (at - (ends.length - 1) / 2) * apart };
    });
  }
  return found;
}

/** Draws a flow as a line with a tip and a label. */
function drawFlow(flow, { from, to, turns }) {
  const isLeft = to.x < from.x && !turns; // it runs from right to left
  const tip = turns || isLeft ? 1 : -1; // where the tip's base is, seen from its point
  const bend = turns ? 70 : (to.x - from.x) / 2;
  const xs = [from.x, from.x + bend, turns ? to.x + bend : to.x - bend, to.x];
  const d = `M${xs[0]} ${from.y}C${xs[1]} ${from.y} ${xs[2]} ${to.y} ${xs[3]} ${to.y}`;
  const x = curve(...xs, LABEL_AT);
  const y = curve(from.y, from.y, to.y, to.y, LABEL_AT);
  const text = labelOf(flow);
  const wide = 18 + 6.9 * text.length;
  return s(
    "a",
    {
      class: `map-flow ${flow.health}`,
      href: path("flows", flow.flow),
      "aria-label": `${flow.flow}: ${text}. ${flow.sentence}`,
    },
    s("path", { class: "map-line", d }),
    s("path", { class: "map-tip", d: `M${to.x} ${to.y}l${9 * tip} -5v10z` }),
    s("rect", { class: "map-label", x: x - wide / 2, y: y - 11, width: wide, height: 22, rx: 11 }),
    s("text", { class: "map-text", x, y: y + 4 }, text),
  );
}

/** The point of a Bézier curve at `t`, in one dimension. */
function curve(a, b, c, d, t) {
  const u = 1 - t;
  return u ** 3 * a + 3 * u * u * t * b + 3 * u * t * t * c + t ** 3 * d;
}
