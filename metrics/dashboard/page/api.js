// The server's JSON. Paths are relative to the page, so that it works behind a proxy's prefix.

// get returns a document, or throws an Error with the line that the server sent.
export async function get(path, params, signal) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params || {})) {
    if (value !== "" && value !== null && value !== undefined) query.set(key, value);
  }
  const text = query.toString();
  const response = await fetch(text ? `${path}?${text}` : path, { signal, headers: { Accept: "application/json" } });
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    const error = new Error(body?.error || `the server answered ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return body;
}

// of returns an API path below a run.
export function of(run, what) {
  return `api/runs/${encodeURIComponent(run)}${what ? `/${what}` : ""}`;
}
