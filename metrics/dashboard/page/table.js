// Tables of figures.
import { h, put } from "./dom.js";

// classes returns a column's classes: number is right-aligned, least is left out on a tablet, minor on a phone.
export const classes = (c) => [c.number && "number", c.minor && "minor", c.least && "least"].filter(Boolean).join(" ") || null;

// table makes a table. columns: {label, text(row) or cell(row) -> nodes, number, minor, least: see classes, title}. With
// `head`, the first column's cells are row headers. caption is for screen readers, and visible if `shown` is set.
export function table(caption, columns, rows, { head = true, shown = false, rowAttributes } = {}) {
  const cell = (row, c, i) => {
    const content = c.cell ? c.cell(row) : c.text(row);
    return head && i === 0 ? h("th", { scope: "row", class: classes(c) }, content) : h("td", { class: classes(c) }, content);
  };
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: "data" },
      h("caption", { class: shown ? null : "visually-hidden" }, caption),
      h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: classes(c), title: c.title }, c.label)))),
      h("tbody", null, rows.map((row) => h("tr", rowAttributes?.(row), columns.map((c, i) => cell(row, c, i)))))));
}

// facts makes a list of names and values: [[name, value, title], ...]; a null value leaves its name out.
export function facts(pairs, attributes) {
  return h("dl", { class: "facts", ...attributes }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([name, value, title]) => h("div", { title }, h("dt", null, name), h("dd", null, value))));
}

// bar shows a share, 0..1, as progress.
export function bar(label) {
  const fill = h("span", { class: "bar-fill" });
  const el = h("span", { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": "0" }, fill);
  return {
    el,
    to(value, most) {
      el.setAttribute("aria-valuemax", String(most));
      el.setAttribute("aria-valuenow", String(value));
      fill.style.setProperty("width", `${most > 0 ? Math.min(100, (value / most) * 100) : 0}%`);
    },
  };
}

// moods gives states a color. Other states have none. The word is always shown too.
const moods = { done: "good", failed: "bad", crashed: "bad", lost: "bad", given_up: "bad", stopped: "warn", replaying: "warn", running: "live",
  away: "warn", connected: "live", revoked: "bad", banned: "bad" };

// badge shows a state.
export function badge() {
  const el = h("span", { class: "badge" });
  return {
    el,
    to(state, text) {
      if (el.dataset.state === state && el.textContent === text) return;
      el.dataset.state = state;
      el.className = `badge ${moods[state] || ""}`;
      put(el, text);
    },
  };
}
