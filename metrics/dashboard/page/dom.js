// Elements. All text is inserted through text nodes, so that text from runs, nodes and models never becomes markup.

const svgNames = "http://www.w3.org/2000/svg";

// h makes an element: h("a", {class: "x", href: "#/"}, "text", child, [more]). Attributes that are null, undefined or
// false are left out; true gives an empty attribute; on* are listeners; style is an object for the CSSOM; null children
// are skipped.
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// s is h for SVG.
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(svgNames, name), attributes, children);
}

function fill(el, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
    else el.setAttribute(key, value === true ? "" : String(value));
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) el.append(child instanceof Node ? child : String(child));
  }
}

// put replaces an element's content.
export function put(el, ...children) {
  const kept = children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false);
  el.replaceChildren(...kept.map((c) => (c instanceof Node ? c : String(c))));
  return el;
}

// say sets text only if it changed. Screen readers then announce only changes, and selections stay.
export function say(el, text) {
  if (el.textContent !== text) el.textContent = text;
  return el;
}

// set sets attributes only if they changed. null removes one.
export function set(el, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) el.removeAttribute(key);
    else if (el.getAttribute(key) !== String(value)) el.setAttribute(key, String(value));
  }
  return el;
}

// keyed gives parent one child per item, in the items' order. It calls make(item) once per key, and change(element,
// item) each time. Elements that stay keep focus and scroll position.
export function keyed(parent, items, key, make, change) {
  const old = new Map([...parent.children].map((el) => [el.dataset.key, el]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = String(key(item));
    let el = old.get(k);
    old.delete(k);
    if (!el) {
      el = make(item);
      el.dataset.key = k;
    }
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
    change?.(el, item);
  }
  for (const el of old.values()) el.remove();
}

let ids = 0;

// id returns a unique element id.
export function id(prefix) {
  return `${prefix}-${++ids}`;
}

// select makes a labelled chooser. options: [[value, text], ...]. chosen(value) is called on change.
export function select(label, options, value, chosen) {
  const box = h("select", { id: id("choose"), onchange: () => chosen(box.value) });
  fillSelect(box, options, value);
  return { el: h("label", { class: "choose", for: box.id }, h("span", null, label), box), box };
}

// fillSelect gives a chooser new options. It does nothing if they are the same.
export function fillSelect(box, options, value) {
  const now = JSON.stringify(options);
  if (box.dataset.options !== now) {
    box.dataset.options = now;
    put(box, options.map(([v, text]) => h("option", { value: v }, text)));
  }
  box.value = value;
}

// toggle makes a labelled check box.
export function toggle(label, on, changed) {
  const box = h("input", { type: "checkbox", id: id("toggle"), onchange: () => changed(box.checked) });
  box.checked = on;
  return { el: h("label", { class: "toggle", for: box.id }, box, h("span", null, label)), box };
}
