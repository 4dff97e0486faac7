/** Commands for a terminal that do the same as the page. */

import { button } from "./parts.js";
import { announce, h } from "../base/dom.js";

/** A command to be typed, with a button that copies it. */
export function command(text) {
  const copy = async (event) => {
    const pressed = event.target.closest("button");
    getSelection().selectAllChildren(pressed.previousSibling);
    if (!navigator.clipboard) return; // without TLS a page of another machine has none: the command is selected
    await navigator.clipboard.writeText(text);
    announce("copied");
    pressed.dataset.copied = "yes";
  };
  return h(
    "div",
    { class: "command" },
    h("code", { tabindex: "0" }, text),
    button("Copy", copy, { sign: "copy", kind: "small" }),
  );
}

/** Writes a command as it is typed, with the configuration of the mirror. */
export function commandLine(app, words) {
  const file = app.store.mirror?.config_path;
  return [...words, ...(file ? ["--config", file] : [])].map(quoted).join(" ");
}

function quoted(word) {
  return /^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
