/** Keys of all pages: two letters go somewhere, `/` to the filter, `t` the theme, `?` the list of keys. */

import { h } from "./base/dom.js";
import { go, path } from "./base/router.js";
import { Dialog, dialogButtons } from "./parts/dialog.js";
import { button } from "./parts/parts.js";

const WAIT_MS = 1_500;
const PLACES = { o: [], e: ["events"], a: ["audit"], c: ["config"] };
const KEYS = [
  ["g o", "overview"],
  ["g e", "events"],
  ["g a", "audit"],
  ["g c", "configuration"],
  ["g 1 … 9", "a flow, in order"],
  ["/", "to the filter"],
  ["↑ ↓ Enter", "in a table: move, open"],
  ["← →", "in a chart: read values"],
  ["t", "dark or light"],
  ["?", "this list"],
  ["Esc", "close"],
];

/** Listens until the page is closed. */
export function keys(app) {
  let first = 0;
  addEventListener("keydown", (event) => {
    if (!app.session?.user || isTaken(event)) return;
    const isSecond = Date.now() - first < WAIT_MS;
    first = 0;
    if (isSecond && event.key in PLACES) go(path(...PLACES[event.key]));
    else if (isSecond && /^[1-9]$/.test(event.key)) toFlow(app, Number(event.key));
    else if (event.key === "g") first = Date.now();
    else if (event.key === "t") turnTheme();
    else if (event.key === "?") showKeys();
    else if (event.key === "/") toFilter(event);
  });
}

/** Whether a key is for something else: the browser, a field, a dialog. */
function isTaken(event) {
  const isField = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
  return event.ctrlKey || event.metaKey || event.altKey || isField || document.querySelector("dialog[open]") !== null;
}

function toFlow(app, number) {
  const flow = [...app.store.flows.keys()][number - 1];
  if (flow) go(path("flows", flow));
}

function toFilter(event) {
  const filter = document.querySelector("[data-filter]");
  if (!filter) return;
  event.preventDefault();
  filter.focus();
}

/** Changes to the other theme, and remembers it. */
export function turnTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("raymirror-theme", root.dataset.theme);
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}

/** Shows which keys there are. */
export function showKeys() {
  const dialog = new Dialog({
    label: "Keys",
    view: () => [
      h("h2", {}, "Keys"),
      h("dl", { class: "keys" }, KEYS.map(keyRow)),
      dialogButtons(button("Close", () => dialog.close(), { kind: "primary" })),
    ],
  });
  dialog.open();
}

function keyRow([names, text]) {
  return h(
    "div",
    {},
    h(
      "dt",
      {},
      names.split(" ").map((one) => h("kbd", {}, one)),
    ),
    h("dd", {}, text),
  );
}
