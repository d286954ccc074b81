// What is wrong with the page as it stands, a line each: names missing, ids twice, text too faint, things that reach beyond the page.
(() => {
  const wrong = [];
  const seen = (el) => el.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !el.closest(".visually-hidden");
  const text = (el) => (el.textContent || "").trim();
  const what = (el) => `${el.tagName.toLowerCase()}${el.id && `#${el.id}`}.${el.className.baseVal ?? el.className} "${text(el).slice(0, 30)}"`;
  const name = (el) => el.getAttribute("aria-label") || text(el) || [...(el.labels || [])].map(text).join("") || el.title;
  for (const el of document.querySelectorAll("a, button, input, select, summary, [role=progressbar], [role=img], [role=region]")) {
    if (seen(el) && !name(el) && !el.getAttribute("aria-labelledby")) wrong.push(`no name: ${what(el)}`);
  }
  for (const el of document.querySelectorAll("input, select")) {
    if (seen(el) && !el.labels.length && !el.getAttribute("aria-label")) wrong.push(`no label: ${what(el)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((el) => el.id);
  for (const id of new Set(ids.filter((x, i) => ids.indexOf(x) !== i))) wrong.push(`twice: #${id}`);
  for (const el of document.querySelectorAll("[aria-labelledby], [for]")) {
    const to = el.getAttribute("aria-labelledby") || el.getAttribute("for");
    if (!document.getElementById(to)) wrong.push(`${what(el)} names #${to}, which isn't there`);
  }
  let level = 0;
  for (const el of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(el.tagName[1]);
    if (seen(el) && own > level + 1) wrong.push(`heading skips a level: ${what(el)}`);
    if (seen(el)) level = own;
  }
  for (const tag of ["main", "h1", "body > header"]) if (document.querySelectorAll(tag).length !== 1) wrong.push(`not one ${tag}`);
  if (document.documentElement.scrollWidth > innerWidth) {
    const beyond = (el) => el.getBoundingClientRect().right > innerWidth + 1 && !el.closest(".scroll, .sections, pre, .chart-table");
    const out = [...document.querySelectorAll("main *")].filter(beyond);
    wrong.push(`wider than the page: ${out.slice(0, 3).map(what).join(", ")}`);
  }
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const behind = (el) => {
    let color = [0, 0, 0, 0];
    for (let e = el; e; e = e.parentElement) {
      const under = rgba(getComputedStyle(e).backgroundColor);
      const a = color[3] / 255, b = (under[3] / 255) * (1 - a);
      if (a + b > 0) color = [0, 1, 2].map((i) => (color[i] * a + under[i] * b) / (a + b)).concat((a + b) * 255);
    }
    return color;
  };
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
    const v = c[i] / 255;
    return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  for (const el of document.querySelectorAll("body *")) {
    const own = [...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !seen(el) || el.closest("svg, :disabled, script, noscript")) continue;
    const [a, b] = [light(rgba(getComputedStyle(el).color)), light(behind(el))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) wrong.push(`faint, ${((a + 0.05) / (b + 0.05)).toFixed(1)}:1: ${what(el)}`);
  }
  return [...new Set(wrong)];
})()
