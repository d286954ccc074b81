// Where one is: #/ is the runs, #/runs/RUN/SECTION a run. What is chosen there stands behind a question mark, so that a view can be linked.

export const sections = ["overview", "memory", "charts", "evaluation", "tasks", "events", "rollouts", "setup"];

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % sign
  }
};

// parse reads a location's hash.
export function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const parts = path.split("/").map(decode);
  const params = new URLSearchParams(query || "");
  if (parts[0] === "runs" && parts[1]) {
    return { view: "run", run: parts[1], section: sections.includes(parts[2]) ? parts[2] : "overview", params };
  }
  return { view: "runs", params };
}

// format writes a route as a hash.
export function format({ view, run, section, params }) {
  const query = params?.toString() ? `?${params}` : "";
  if (view !== "run") return `#/${query}`;
  return `#/runs/${encodeURIComponent(run)}${section && section !== "overview" ? `/${section}` : ""}${query}`;
}

// change sets what is chosen in the view that is shown, and its address with it; empty takes a choice away. It makes no new step to go back to.
export function change(route, values) {
  for (const [key, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) route.params.delete(key);
    else route.params.set(key, value);
  }
  try {
    history.replaceState(null, "", format(route));
  } catch {
    // some browsers refuse more than so many a minute: the address follows with the next change
  }
}
