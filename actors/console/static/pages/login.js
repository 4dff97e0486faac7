/** Asks who it is: the password or the token of a user of the server. */

import * as api from "../base/api.js";
import { h } from "../base/dom.js";
import { button, note, refusal } from "../parts/parts.js";

export class LoginPage {
  constructor(app, { refused, entered }) {
    this.app = app;
    this.entered = entered;
    this.refused = refused;
    this.isBusy = false;
    this.kind = "password";
  }

  title() {
    return "Log in";
  }

  view() {
    return h(
      "form",
      { class: "login", on: { submit: (event) => this.#submit(event) } },
      h("img", { src: "/console/icon.svg", alt: "", width: 44, height: 44 }),
      h("h1", {}, "raymirror"),
      this.refused ? refusal(this.refused) : null,
      h(
        "div",
        { class: "choice", role: "group", "aria-label": "Log in with" },
        this.#kind("password", "Password"),
        this.#kind("token", "Token"),
      ),
      this.kind === "password"
        ? [
            this.#field("user", "User", "text", "username"),
            this.#field("password", "Password", "password", "current-password"),
          ]
        : this.#field("token", "Token", "password", "off"),
      button(this.isBusy ? "Working…" : "Log in", null, { kind: "primary", isOff: this.isBusy }),
      note("Or on the machine of the mirror: ", h("code", {}, "raymirror console")),
    );
  }

  #kind(kind, text) {
    const choose = () => {
      this.kind = kind;
      this.app.update();
    };
    return h(
      "button",
      { type: "button", class: "button", "aria-pressed": String(this.kind === kind), on: { click: choose } },
      text,
    );
  }

  #field(name, text, type, autocomplete) {
    return h(
      "label",
      { key: name },
      h("span", {}, text),
      h("input", {
        class: "input",
        name,
        type,
        autocomplete,
        required: true,
        autocapitalize: "off",
        spellcheck: "false",
      }),
    );
  }

  async #submit(event) {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    this.isBusy = true;
    this.refused = "";
    this.app.update();
    try {
      const session = await api.enter(given);
      this.isBusy = false;
      this.entered(session);
    } catch (error) {
      this.isBusy = false;
      this.refused = error.message;
      this.app.update();
    }
  }
}
