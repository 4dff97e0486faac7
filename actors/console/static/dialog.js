/** Asks before something is done: a dialog with a form, which keeps the focus and closes with Escape. */

import { fill, h } from "./dom.js";

export class Dialog {
  /** `view()` returns the content; `update` draws it again. */
  constructor({ label, view, wide = false }) {
    this.view = view;
    this.element = h("dialog", { class: wide ? "dialog wide" : "dialog", "aria-label": label });
    this.element.addEventListener("close", () => this.#closed());
    this.element.addEventListener("click", (event) => {
      if (event.target === this.element) this.close();
    });
  }

  /** Opens the dialog; resolves with what `close` is given, null if it is left. */
  open() {
    document.body.append(this.element);
    this.update();
    this.element.showModal();
    return new Promise((resolve) => (this.resolve = resolve));
  }

  update() {
    fill(this.element, this.view());
  }

  close(value = null) {
    this.value = value;
    this.element.close();
  }

  #closed() {
    this.element.remove();
    this.resolve?.(this.value ?? null);
  }
}

/**
 * Asks whether to do something. `text`: what it does, in sentences; `word`: what must be typed first; `run()`: does it.
 * Resolves with whether it was done. A refusal is shown in the dialog.
 */
export function confirm({ title, text, verb, word = "", danger = false, run }) {
  let typed = "";
  let busy = false;
  let refused = "";
  const dialog = new Dialog({ label: title, view });

  async function submit(event) {
    event.preventDefault();
    if (busy || typed !== word) return;
    busy = true;
    refused = "";
    dialog.update();
    try {
      await run();
      dialog.close(true);
    } catch (error) {
      busy = false;
      refused = error.message;
      dialog.update();
    }
  }

  function view() {
    const isReady = !busy && typed === word;
    return h(
      "form",
      { class: "dialog-form", on: { submit } },
      h("h2", {}, title),
      [text].flat().map((line) => h("p", {}, line)),
      word ? typing(word, typed, (value) => ((typed = value), dialog.update())) : null,
      refused ? h("p", { class: "refused", role: "alert" }, refused) : null,
      h(
        "div",
        { class: "dialog-buttons" },
        h("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, "Cancel"),
        h(
          "button",
          { type: "submit", class: danger ? "button danger" : "button primary", disabled: !isReady },
          busy ? "Working…" : verb,
        ),
      ),
    );
  }

  return dialog.open().then(Boolean);
}

/** A field in which a word must be typed, so that nobody acts on the wrong flow. */
export function typing(word, typed, changed) {
  return h(
    "label",
    { class: "typing" },
    h("span", {}, "Type ", h("code", {}, word), " to go on"),
    h("input", {
      class: "input",
      value: typed,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      on: { input: (event) => changed(event.target.value) },
    }),
  );
}
