/** The signs of the page. A state has a shape of its own, so that it is recognized without colours. */

import { s } from "../base/dom.js";

const PATHS = {
  ok: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z", "M5 8.2l2.1 2.1L11 6"],
  attention: ["M8 1.8L15 14H1z", "M8 6.2v3.4M8 11.6v.2"],
  trouble: ["M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2z", "M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"],
  off: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z", "M6.4 5.6v4.8M9.6 5.6v4.8"],
  info: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z", "M8 7.4v3.6M8 5v.2"],
  overview: ["", "M2 2.5h5v5H2zM9 2.5h5v3H9zM9 7.5h5v6H9zM2 9.5h5v4H2z"],
  events: ["", "M3 3.5h10M3 8h10M3 12.5h6"],
  audit: ["", "M8 1.5l5.5 2v4.2c0 3.2-2.2 5.7-5.5 6.8c-3.3-1.1-5.5-3.6-5.5-6.8V3.5zM5.6 8l1.8 1.8L10.6 6.4"],
  config: ["", "M2 4.5h6M11 4.5h3M2 11.5h3M8 11.5h6M9.5 2.7v3.6M6.5 9.7v3.6"],
  theme: ["M8 1.5a6.5 6.5 0 0 0 0 13z", "M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z"],
  user: ["", "M8 8a3 3 0 1 0 0-6a3 3 0 0 0 0 6zM2.5 14c.6-2.6 2.7-4 5.5-4s4.9 1.4 5.5 4"],
  menu: ["", "M2 4h12M2 8h12M2 12h12"],
  pause: ["", "M5.5 3.5v9M10.5 3.5v9"],
  play: ["", "M4.5 2.8L12.5 8l-8 5.2z"],
  stop: ["", "M3.5 3.5h9v9h-9z"],
  restart: ["", "M13.2 8a5.2 5.2 0 1 1-1.6-3.7M13.4 1.8v3h-3"],
  failover: ["", "M2 5h11M10 2l3 3l-3 3M14 11H3M6 14l-3-3l3-3"],
  keys: ["", "M1.5 4h13v8.5h-13zM4 6.8h.2M7 6.8h.2M10 6.8h.2M12 6.8h.2M5 9.8h6"],
  copy: ["", "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3"],
};

/** Draws a sign; it is decoration, so the text beside it must say the same. */
export function icon(name, more = "") {
  const [area, line] = PATHS[name];
  return s(
    "svg",
    { class: `icon icon-${name} ${more}`.trim(), viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    area ? s("path", { class: "area", d: area }) : null,
    s("path", { class: "line", d: line }),
  );
}
