/** Asks the server: the session of this page, and the API. */

const BASE = "/api/v1";

let csrf = "";
let lost = () => {};

/** A request that the server refused, in its words. `status` 0: it did not answer. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Calls `handler` whenever the server no longer knows the session. */
export function onLost(handler) {
  lost = handler;
}

/** Returns the headers of each request. An empty token tells the server to open no window of the browser. */
export function headers(more = {}) {
  return { "X-CSRF-Token": csrf, ...more };
}

async function send(method, url, body, signal) {
  const words = { method, signal, credentials: "same-origin", headers: headers({ Accept: "application/json" }) };
  if (body !== undefined) {
    words.headers["Content-Type"] = "application/json";
    words.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(url, words);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. The page tries again by itself.");
  }
  const text = await answer.text();
  const data = text ? parsed(text) : null;
  if (answer.ok) return data;
  throw new Refused(answer.status, data?.message ?? `${answer.status} ${answer.statusText}`);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function ask(method, url, body, signal) {
  try {
    return await send(method, `${BASE}${url}`, body, signal);
  } catch (error) {
    if (error.status === 401) lost();
    throw error;
  }
}

/** Returns the address of something of a flow: `of("A->B", "topics", {limit: 5})`. */
export function of(flow, what = "", query = {}) {
  const rest = what ? `/${what}` : "";
  return `/flows/${encodeURIComponent(flow)}${rest}${search(query)}`;
}

/** Writes a query; values that are empty are left out. */
export function search(query) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) found.append(name, value);
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

export const get = (url, signal) => ask("GET", url, undefined, signal);
export const post = (url, body) => ask("POST", url, body);
export const remove = (url) => ask("DELETE", url);
export const patch = (url, body) => ask("PATCH", url, body);

function taken(session) {
  csrf = session?.csrf ?? "";
  return session;
}

/** Returns who asks: `{user, role, csrf, login, version}`; `user` is null without a session. */
export const session = async () => taken(await send("GET", "/console/session"));

/** Opens a session with `{user, password}`, `{token}` or `{once}`. */
export const enter = async (given) => taken(await send("POST", "/console/session", given));

/** Closes the session. */
export async function leave() {
  await send("DELETE", "/console/session");
  csrf = "";
}
