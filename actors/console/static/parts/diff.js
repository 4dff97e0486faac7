/** Differences: lines that go and lines that come. */

import { h } from "../base/dom.js";

/** `rows`: `{key, before, after, note}`; null: not set. */
export function diff(rows) {
  return h("div", { class: "diff", role: "list" }, rows.map(entry));
}

function entry({ key, before, after, note }) {
  return h(
    "div",
    { class: "diff-entry", role: "listitem", key },
    before === null ? null : line("gone", "−", "before", `${key} = ${before}`),
    after === null ? null : line("come", "+", "after", `${key} = ${after}`),
    note ? h("div", { class: "diff-note" }, note) : null,
  );
}

function line(kind, sign, label, text) {
  return h(
    "div",
    { class: `diff-line ${kind}` },
    h("span", { class: "sign", "aria-label": label }, sign),
    h("code", {}, text),
  );
}
