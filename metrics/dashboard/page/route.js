// The current route: #/ is the list of runs, #/runs/RUN/SECTION a run. Choices within a view follow a question mark, so
// that a view can be linked.

export const sections = ["overview", "memory", "charts", "evaluation", "tasks", "events", "rollouts", "setup"];

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % sign
  }
};

// parse reads a route from a location's hash.
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

// change sets choices in the current view and in its address. An empty value removes a choice. It adds no entry to the
// browser's history.
export function change(route, values) {
  for (const [key, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) route.params.delete(key);
    else route.params.set(key, value);
  }
  try {
    history.replaceState(null, "", format(route));
  } catch {
    // browsers limit the number of changes a minute; the next change updates the address
  }
}
