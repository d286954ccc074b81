// The page: it selects the view, and passes the messages of the live connection to it.
import { get } from "./api.js";
import { h, put, say } from "./dom.js";
import * as f from "./format.js";
import { keys } from "./keys.js";
import { empty } from "./load.js";
import { parse } from "./route.js";
import { RunView } from "./run.js";
import { RunsView } from "./runs.js";
import { Stream } from "./stream.js";
import { theme } from "./theme.js";

const hiddenFor = 30_000; // after this many ms hidden, the page closes the connection until it is visible again

const view = document.getElementById("view"), banner = document.getElementById("banner"), spoken = document.getElementById("spoken");
const connection = document.getElementById("connection");
const stream = new Stream();
let route, shown, runs;

// speak announces a text to screen readers without interrupting earlier ones. It keeps the number of announcements
// small.
function speak(text) {
  spoken.append(h("p", null, f.clip(text, 200)));
  while (spoken.children.length > 4) spoken.firstChild.remove();
}

function show() {
  const next = parse(location.hash);
  const first = !shown;
  if (next.view === "run" && route?.view === "run" && route.run === next.run) {
    route = next;
    return shown.go(next);
  }
  shown?.leave();
  route = next;
  delete view.dataset.ready;
  view.dataset.view = route.view;
  shown = route.view === "run" ? new RunView(route) : new RunsView(route);
  document.title = `${shown.title} · swarm`;
  put(view, shown.el);
  if (route.view === "runs" && runs) update();
  else if (route.view === "runs") put(shown.el, empty("Reading the runs …"));
  if (!first) {
    scrollTo(0, 0);
    view.focus({ preventScroll: true });
  }
}

function update() {
  database();
  if (route.view === "runs") shown.update(runs);
  view.dataset.ready = "";
}

// merge replaces changed rows in the document of all runs.
function merge(doc) {
  if (doc.full !== false || !runs) return void (runs = doc);
  const rows = new Map(runs.runs.map((r) => [r.run, r]));
  for (const r of doc.runs || []) {
    const was = rows.get(r.run)?.state;
    if (was && was !== r.state) speak(`${r.experiment}, seed ${r.seed}: ${r.state}`);
    rows.set(r.run, r);
  }
  runs = { ...runs, ...doc, runs: [...rows.values()] };
}

async function reload() {
  try {
    const doc = await get("api/runs");
    merge(doc);
    update();
  } catch (error) {
    if (error.status) put(banner, h("p", { class: "banner", "data-banner": "problem", role: "alert" }, error.message));
  }
}

function database() {
  if (stream.state === "lost") return;
  const bad = runs?.database === "unusable" && runs.runs.length > 0;
  put(banner, bad ? h("p", { class: "banner", "data-banner": "database", role: "status" }, runs.problem) : null);
}

// connected shows the state of the connection, and the time of the next attempt while it is lost.
function connected() {
  const state = stream.state;
  document.documentElement.dataset.live = state;
  say(connection, { live: "live", connecting: "connecting …", lost: "connection lost" }[state]);
  if (state === "live") return void database();
  if (state === "lost") {
    put(banner, h("p", { class: "banner", "data-banner": "lost", role: "status" },
      "Connection lost. The page may be out of date. Trying again … ", h("button", { type: "button", onclick: () => stream.now() }, "Try now")));
    reload(); // if the server answers, its error has the reason
  }
}

stream.addEventListener("connection", connected);
stream.addEventListener("again", () => {
  speak("Connected again.");
  reload();
  shown?.refresh?.();
});
stream.addEventListener("runs", (e) => {
  merge(e.detail);
  update();
});
stream.addEventListener("status", (e) => shown?.status?.(e.detail));
stream.addEventListener("entry", (e) => {
  shown?.entry?.(e.detail);
  if (e.detail.level === "error") speak(`${e.detail.node || "run"}: ${e.detail.message}`);
});

let asleep = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(asleep);
  if (document.hidden) asleep = setTimeout(() => stream.sleep(), hiddenFor);
  else stream.wake();
});
addEventListener("online", () => stream.now());
addEventListener("pagehide", () => stream.close());
addEventListener("hashchange", show);

const help = document.getElementById("help");
document.getElementById("help-button").addEventListener("click", () => help.showModal());
keys({ dialog: help, route: () => route, theme: theme(document.getElementById("theme-button")) });
document.getElementById("skip").addEventListener("click", (e) => {
  e.preventDefault(); // the hash belongs to the route
  view.focus();
});

document.documentElement.dataset.live = "connecting";
show();
stream.open();
reload();
