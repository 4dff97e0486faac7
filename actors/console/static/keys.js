/** Keys of all pages: two letters go somewhere, `/` to the filter, `t` the theme, `?` the list of keys. */

import { go, path } from "./router.js";

const WAIT_MS = 1_500;
const PLACES = { o: [], e: ["events"], a: ["audit"], c: ["config"] };

/** Listens until the page is closed. */
export function keys(app) {
  let first = 0;
  addEventListener("keydown", (event) => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      isTyping(event.target) ||
      document.querySelector("dialog[open]")
    )
      return;
    if (!app.session?.user) return;
    const isSecond = Date.now() - first < WAIT_MS;
    first = 0;
    if (isSecond && event.key in PLACES) go(path(...PLACES[event.key]));
    else if (isSecond && /^[1-9]$/.test(event.key)) toFlow(app, Number(event.key));
    else if (event.key === "g") first = Date.now();
    else if (event.key === "t") app.turnTheme();
    else if (event.key === "?") app.showKeys();
    else if (event.key === "/") {
      const filter = document.querySelector("[data-filter]");
      if (!filter) return;
      event.preventDefault();
      filter.focus();
    }
  });
}

function toFlow(app, number) {
  const flow = [...app.store.flows.keys()][number - 1];
  if (flow) go(path("flows", flow));
}

function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}
