// Formats figures as the terminal does (metrics/terminal/units.go). It computes nothing.

export const none = "–";

const known = (v) => typeof v === "number" && Number.isFinite(v);

// reward: three digits.
export function reward(v) {
  return known(v) ? v.toFixed(3) : none;
}

// number: only significant digits.
export function number(v) {
  if (!known(v)) return none;
  const size = Math.abs(v);
  if (Number.isInteger(v)) return v.toLocaleString("en-US");
  if (size >= 1000) return v.toLocaleString("en-US", { maximumFractionDigits: 0 });
  if (size >= 10) return v.toFixed(1);
  return size >= 0.001 || size === 0 ? v.toFixed(3) : v.toExponential(1);
}

// bytes: 1 GB is 10^9 bytes.
export function bytes(v) {
  if (!known(v) || v <= 0) return none;
  if (v < 1e9) return `${Math.round(v / 1e6)} MB`;
  return v < 100e9 ? `${(v / 1e9).toFixed(1)} GB` : `${Math.round(v / 1e9)} GB`;
}

// seconds: 0.4 s, 42s, 1m27s, 2h05m, 3d04h.
export function seconds(v) {
  if (!known(v)) return none;
  if (v < 10) return `${Math.max(0, v).toFixed(1)} s`;
  const whole = Math.round(v);
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d${two(Math.floor((whole % 86400) / 3600))}h`;
}

// percent of a ratio; signed: +94 %.
export function percent(v, signed = false, digits = 0) {
  if (!known(v)) return none;
  const text = `${Math.abs(v * 100).toFixed(digits)} %`;
  if (v < 0) return `−${text}`;
  return signed ? `+${text}` : text;
}

// p of a test: 0.03, < 0.001.
export function p(v) {
  if (!known(v)) return none;
  return v < 0.001 ? "< 0.001" : v.toFixed(v < 0.1 ? 3 : 2);
}

// money: the currency symbol before or its letters after the amount, as in internal/units. Amounts below a cent have
// two significant digits.
export function money(v, currency) {
  if (!known(v)) return none;
  const less = v > 0 && v < 1e-6 ? "<" : "";
  const two = Number(v.toPrecision(2));
  const small = v > 0 && two < 0.01;
  const amount = less ? "0.000001" : small ? two.toFixed(1 - Math.floor(Math.log10(two) + 1e-9)) : v.toFixed(2);
  if (!currency) return less + amount;
  return less + (/^[A-Za-z]/.test(currency) ? `${amount} ${currency}` : `${currency}${amount}`);
}

// clock: the time of day; when: with the date; ago: the time since then.
export function clock(unix) {
  return known(unix) && unix > 0 ? new Date(unix * 1000).toLocaleTimeString("en-GB") : none;
}

// stamp is the time of day, with the date unless it is today.
export function stamp(unix) {
  const d = new Date(unix * 1000);
  const today = d.toDateString() === new Date().toDateString();
  return today ? clock(unix) : `${d.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(unix)}`;
}

export function when(unix) {
  if (!known(unix) || unix <= 0) return none;
  const d = new Date(unix * 1000);
  const year = d.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return `${d.toLocaleDateString("en-GB", { day: "numeric", month: "short", year })} ${d.toLocaleTimeString("en-GB").slice(0, 5)}`;
}

// count: 1 node, 2 nodes.
export function count(n, noun) {
  return `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
}

// words converts a name of the API to words: given_up -> given up.
export function words(name) {
  return String(name ?? "").replaceAll("_", " ");
}

// clip shortens a text for a heading or a cell.
export function clip(text, most) {
  const one = String(text ?? "").replace(/\s+/g, " ").trim();
  return one.length > most ? `${one.slice(0, most - 1)}…` : one;
}
