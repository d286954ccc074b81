// Keyboard shortcuts, and their list, which "?" opens.
import { h, put } from "./dom.js";
import { format, sections } from "./route.js";

const list = [
  ["?", "this list"], ["g then r", "runs"], ["1 … 8", `parts of a run: ${sections.join(", ")}`],
    ["j / k", "next / previous run, node, event or rollout"],
  ["/", "filter the runs"], ["t", "light, dark, or the system's theme"], ["Esc", "close; leave a field"],
  ["← →", "on a chart: move the cursor (with Shift by ten)"], ["+ − 0", "on a chart: zoom in, out, everything"],
];

const typing = (el) => el instanceof HTMLElement && (el.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(el.tagName)) && el.type !== "checkbox";

// keys listens for shortcuts. route() returns the current route, theme() changes the theme, and dialog lists the
// shortcuts.
export function keys({ dialog, route, theme }) {
  put(dialog.querySelector("tbody"), list.map(([key, what]) => h("tr", null, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, what))));
  let before = "";
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || dialog.open) return;
    if (typing(e.target)) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    const was = before;
    before = e.key;
    if (act(e.key, was)) e.preventDefault();
  });

  function act(key, was) {
    if (was === "g" && key === "r") return go({ view: "runs", params: new URLSearchParams() });
    switch (key) {
      case "?": dialog.showModal(); return true;
      case "t": theme(); return true;
      case "/": return focus(document.getElementById("filter"));
      case "j": return step(1);
      case "k": return step(-1);
    }
    const r = route(), at = Number(key) - 1;
    if (r.view === "run" && sections[at]) return go({ view: "run", run: r.run, section: sections[at] });
    return false;
  }
}

function go(route) {
  location.hash = format(route);
  return true;
}

function focus(el) {
  el?.focus();
  return Boolean(el);
}

// step moves between the items of the view.
function step(by) {
  const things = "#runs tbody th a, .nodes .node-links a:first-child, button.event, details.rollout > summary";
  const all = [...document.querySelectorAll(things)].filter((el) => el.offsetParent);
  if (!all.length) return false;
  const at = all.indexOf(document.activeElement);
  return focus(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))]);
}
