/** Dialogs: they ask before something is done, keep the focus, and close with Escape. */

import { button, refusal } from "./parts.js";
import { fill, h } from "../base/dom.js";

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
    if (this.element.isConnected) fill(this.element, this.view());
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

/** What a dialog does when its button is pressed: whether it is under way, and why it was refused. */
export class Attempt {
  constructor() {
    this.isBusy = false;
    this.refused = "";
  }

  /** Does it once; closes the dialog if it is done. */
  async run(dialog, act) {
    if (this.isBusy) return;
    this.isBusy = true;
    this.refused = "";
    dialog.update();
    try {
      await act();
      dialog.close(true);
    } catch (error) {
      this.refused = error.message;
    }
    this.isBusy = false;
    dialog.update();
  }

  /** Says why it was refused. */
  view() {
    return this.refused ? refusal(this.refused) : null;
  }
}

/** The last row of a dialog. */
export function dialogButtons(...buttons) {
  return h("div", { class: "dialog-buttons" }, ...buttons);
}

/**
 * Asks whether to do something. `text`: what it does, in sentences; `more`: what is shown below them; `word`: what must be
 * typed first; `run()`: does it. Resolves with whether it was done. A refusal is shown in the dialog.
 */
export function confirm({ title, text, more = null, verb, word = "", danger = false, wide = false, run }) {
  const attempt = new Attempt();
  let typed = "";
  const dialog = new Dialog({ label: title, wide, view });

  function submit(event) {
    event.preventDefault();
    if (typed === word) attempt.run(dialog, run);
  }

  function view() {
    const isOff = attempt.isBusy || typed !== word;
    return h(
      "form",
      { on: { submit } },
      h("h2", {}, title),
      [text].flat().map((line) => h("p", {}, line)),
      more?.(),
      word ? typing(word, typed, (value) => ((typed = value), dialog.update())) : null,
      attempt.view(),
      dialogButtons(
        button("Cancel", () => dialog.close()),
        button(attempt.isBusy ? "Working…" : verb, null, { kind: danger ? "danger" : "primary", isOff }),
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
