/** Draws the clusters of a mirror and the flows between them: sources on the left, targets on the right. */

import { h, s } from "./dom.js";
import * as format from "./format.js";
import { path } from "./router.js";

const BOX = { width: 196, height: 62 };
const GAP_X = 240;
const GAP_Y = 34;
const EDGE = 14;
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
  const columns = 1 + Math.max(0, ...[...places.values()].map((one) => one.column));
  const counts = Array.from({ length: columns }, (_, at) => [...places.values()].filter((one) => one.column === at).length);
  const most = Math.max(1, ...counts);
  const turns = flows.some((flow) => places.get(flow.source)?.column === places.get(flow.target)?.column);
  const width = 2 * EDGE + (turns ? 140 : 0) + columns * BOX.width + (columns - 1) * GAP_X;
  const height = 2 * EDGE + most * BOX.height + (most - 1) * GAP_Y;
  const spot = (name) => {
    const { column, row } = places.get(name);
    const free = (most - counts[column]) * (BOX.height + GAP_Y);
    return { x: EDGE + column * (BOX.width + GAP_X), y: EDGE + free / 2 + row * (BOX.height + GAP_Y) };
  };
  const known = flows.filter((flow) => places.has(flow.source) && places.has(flow.target));
  return [
    h(
      "div",
      { class: "map", key: "map" },
      s(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Clusters and the flows between them" },
        known.map((flow) => drawFlow(flow, places, spot, known.some((one) => one.source === flow.target && one.target === flow.source))),
        clusters.map((one) => drawCluster(one, spot(one.name))),
      ),
    ),
    h(
      "ul",
      { class: "map-list", key: "list" },
      flows.map((flow) => h("li", {}, h("a", { href: path("flows", flow.flow), class: flow.health }, flow.flow.replace("->", " → ")), ` ${label(flow)}`)),
    ),
  ];
}

function isBack(places) {
  return (flow) => (places.get(flow.source)?.column ?? 0) >= (places.get(flow.target)?.column ?? 0);
}

function label(flow) {
  if (flow.state !== "running") return flow.state.replace("_", " ");
  return flow.rpo.seconds === null ? "lag not known" : flow.rpo.records ? `${format.duration(flow.rpo.seconds)} behind` : "in step";
}

function drawCluster(cluster, { x, y }) {
  const name = format.middle(cluster.name, 20);
  const more = cluster.bootstrap.length > 1 ? ` +${cluster.bootstrap.length - 1}` : "";
  const servers = format.middle(cluster.bootstrap[0] ?? "", 26 - more.length);
  return s(
    "g",
    { class: "map-cluster", transform: `translate(${x} ${y})` },
    s("title", {}, [cluster.name, cluster.id ? `id ${cluster.id}` : "", ...cluster.bootstrap].filter(Boolean).join("\n")),
    s("rect", { width: BOX.width, height: BOX.height, rx: 9 }),
    s("text", { class: "map-name", x: 14, y: 27 }, name),
    s("text", { class: "map-servers", x: 14, y: 46 }, servers + more),
  );
}

/** Draws a flow as a line with a tip and a label; two flows between the same clusters run beside each other. */
function drawFlow(flow, places, spot, isPaired) {
  const from = spot(flow.source);
  const to = spot(flow.target);
  const shift = isPaired ? (isBack(places)(flow) ? 13 : -13) : 0;
  const [start, end, turn] = ends(places, flow, from, to);
  const middleY = BOX.height / 2 + shift;
  const a = { x: start, y: from.y + middleY };
  const b = { x: end, y: to.y + middleY };
  const bend = turn ? 70 : (b.x - a.x) / 2;
  const d = `M${a.x} ${a.y}C${a.x + bend} ${a.y} ${turn ? b.x + bend : b.x - bend} ${b.y} ${b.x} ${b.y}`;
  const way = turn || end < start ? 1 : -1; // where the tip's base is, seen from its point
  const at = curve(a.x, turn ? a.x + bend : a.x + bend, turn ? b.x + bend : b.x - bend, b.x, LABEL_AT);
  const down = curve(a.y, a.y, b.y, b.y, LABEL_AT);
  const text = label(flow);
  const wide = 18 + 6.9 * text.length;
  return s(
    "a",
    { class: `map-flow ${flow.health}`, href: path("flows", flow.flow), "aria-label": `${flow.flow}: ${flow.sentence}` },
    s("path", { class: "map-line", d }),
    s("path", { class: "map-tip", d: `M${b.x} ${b.y}l${9 * way} -5v10z` }),
    s("rect", { class: "map-label", x: at - wide / 2, y: down - 11, width: wide, height: 22, rx: 11 }),
    s("text", { class: "map-text", x: at, y: down + 4 }, text),
  );
}

/** Where a line begins and ends (x), and whether it must turn because both clusters are in one column. */
function ends(places, flow, from, to) {
  const turn = places.get(flow.source).column === places.get(flow.target).column;
  if (turn) return [from.x + BOX.width, to.x + BOX.width + 1, true];
  return to.x > from.x ? [from.x + BOX.width, to.x - 1, false] : [from.x, to.x + BOX.width + 1, false];
}

/** The point of a Bézier curve at `t`, in one dimension. */
function curve(a, b, c, d, t) {
  const u = 1 - t;
  return u ** 3 * a + 3 * u * u * t * b + 3 * u * t * t * c + t ** 3 * d;
}
