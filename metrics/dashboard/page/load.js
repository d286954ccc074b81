// Loads the content of a part of the page: at once, and again when poked, but not too often. Errors are shown in that
// part.
import { h, id, put } from "./dom.js";

// loader calls load(signal) now and after poke(), at least `every` ms apart, never twice at a time, and not while the
// page is hidden. Errors are shown in the element `problem`, with a button to retry. stop() ends the loader and aborts
// a request in progress.
export function loader(problem, load, every = 4000) {
  const abort = new AbortController();
  let timer = 0, busy = false, wanted = false, last = -Infinity;

  async function run() {
    timer = 0;
    busy = true;
    wanted = false;
    last = performance.now();
    try {
      await load(abort.signal);
      put(problem);
    } catch (error) {
      if (!abort.signal.aborted) show(error);
    }
    busy = false;
    if (wanted) poke();
  }

  function show(error) {
    const lost = error instanceof TypeError; // the error of fetch if the server cannot be reached
    put(problem, h("p", { class: "problem", role: "status" }, lost ? "The server doesn't answer." : `${error.message} `,
      " ", h("button", { type: "button", onclick: now }, "Try again")));
  }

  function poke() {
    if (abort.signal.aborted) return;
    wanted = true;
    if (busy || timer || document.hidden) return;
    timer = setTimeout(run, Math.max(0, every - (performance.now() - last)));
  }

  function now() {
    clearTimeout(timer);
    timer = 0;
    last = -Infinity;
    poke();
  }

  const seen = () => { if (!document.hidden && wanted) poke(); };
  document.addEventListener("visibilitychange", seen);
  return {
    poke, now,
    stop() {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
  };
}

// Part is a section of a view: a heading, tools, a place for problems, and a body.
export function part(title, { level = 2, tools = [], anchor = id("part"), note } = {}) {
  const problem = h("div");
  const body = h("div", { class: "part-body" });
  const heading = h(`h${level}`, { id: anchor }, title);
  const el = h("section", { class: "part", "aria-labelledby": anchor },
    h("div", { class: "part-head" }, heading, tools.length ? h("div", { class: "tools" }, tools) : null),
    note ? h("p", { class: "note" }, note) : null, problem, body);
  return { el, body, problem, heading };
}

// empty shows that there is nothing yet, and a command to type.
export function empty(text, command) {
  return h("div", { class: "empty" }, h("p", null, text), command ? h("pre", null, h("code", null, command)) : null);
}
