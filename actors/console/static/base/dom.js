/**
 * Makes elements, and changes a page into what it should be with as few changes of the DOM as possible.
 *
 * A page is a function that returns the tree it wants; `morph` makes the present tree like it. Focus, selection and scroll
 * positions stay. No text is ever read as markup.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Makes an HTML element. `on`: handlers by event; `key`: who it is among its siblings; other names are attributes. */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

/** Makes an SVG element, as `h`. */
export function s(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

/** Makes a place that a component draws by itself: an object with an `element`. */
export function slot(component, props) {
  const place = h("div", props);
  place.component = component;
  return place;
}

function build(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") listen(node, value);
    else if (name === "key") node.key = value;
    else if (name === "value") node.value = node.wanted = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child);
  }
}

function listen(node, handlers) {
  node.handlers = handlers;
  for (const kind of Object.keys(handlers)) node.addEventListener(kind, dispatch);
}

function dispatch(event) {
  event.currentTarget.handlers?.[event.type]?.(event);
}

/** Makes the children of `root` like `nodes`. */
export function fill(root, ...nodes) {
  const wanted = [];
  const flatten = (one) => {
    if (Array.isArray(one)) one.forEach(flatten);
    else if (one === null || one === undefined || one === false || one === "") return;
    else wanted.push(one instanceof Node ? one : document.createTextNode(one));
  };
  nodes.forEach(flatten);
  morphChildren(root, wanted);
}

function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  morphAttributes(from, to);
  morphHandlers(from, to);
  if (to.component) return;
  morphChildren(from, [...to.childNodes]);
}

function isLike(from, to) {
  return (
    from.nodeType === to.nodeType &&
    from.nodeName === to.nodeName &&
    from.key === to.key &&
    from.component === to.component
  );
}

function morphAttributes(from, to) {
  for (const { name, value } of to.attributes) {
    if (name === "style")
      from.style.cssText = to.style.cssText; // the policy forbids the attribute
    else if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    // `open` is the browser's: who has opened a detail keeps it open.
    if (!to.hasAttribute(name) && name !== "open" && name !== "style") from.removeAttribute(name);
  }
  // A field without a value of the page keeps what was typed; so does the one that has the focus.
  if (to.wanted !== undefined && from !== document.activeElement && from.value !== to.wanted) from.value = to.wanted;
}

function morphHandlers(from, to) {
  for (const kind of Object.keys(to.handlers ?? {})) {
    if (!from.handlers?.[kind]) from.addEventListener(kind, dispatch);
  }
  from.handlers = to.handlers;
}

function morphChildren(root, wanted) {
  const keyed = new Map();
  for (const child of root.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let at = root.firstChild;
  for (const to of wanted) {
    const known = to.key !== undefined ? keyed.get(to.key) : undefined;
    if (known && isLike(known, to)) {
      if (known === at) at = at.nextSibling;
      else root.insertBefore(known, at);
      morph(known, to);
      continue;
    }
    if (at && to.key === undefined && isLike(at, to)) {
      morph(at, to);
      at = at.nextSibling;
      continue;
    }
    root.insertBefore(to, at);
    mount(to);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function mount(node) {
  if (node.component) node.replaceChildren(node.component.element);
  else for (const child of node.childNodes) mount(child);
}

/** Says something to a screen reader. */
export function announce(text) {
  document.getElementById("said").textContent = text;
}
