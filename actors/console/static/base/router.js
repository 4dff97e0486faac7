/**
 * Finds the page of an address. Addresses are fragments (`#/flows/A-%3EB/topics`), so the server knows of one page only,
 * and a name in an address is in no log.
 */

/** Returns the fragment of a page: `path("flows", "A->B", "topics")`. */
export function path(...names) {
  return `#/${names.map(encodeURIComponent).join("/")}`;
}

/** Reads the address: names, and the query after `?`. */
export function here() {
  const [names, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { names: names.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Changes the query of the address without a new entry in the history. */
export function setQuery(values) {
  const [names] = location.hash.split("?");
  const kept = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  const query = kept.toString();
  history.replaceState(null, "", `${names || "#/"}${query ? `?${query}` : ""}`);
}

/** Goes to a page. */
export function go(address) {
  location.hash = address;
}

/** Finds the first route that fits: `["flows", ":flow", "topics"]`. Returns its page and the names; null if none fits. */
export function match(routes, names) {
  for (const [pattern, page] of routes) {
    if (pattern.length !== names.length) continue;
    const found = {};
    const fits = pattern.every((part, at) => {
      if (part.startsWith(":")) found[part.slice(1)] = names[at];
      return part.startsWith(":") || part === names[at];
    });
    if (fits) return { page, params: found };
  }
  return null;
}
