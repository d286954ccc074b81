// What doesn't fit on the page as it stands, a line each: boxes that leave their parents', text that leaves its box, and text that is cut without an
// ellipsis and a title. What scrolls may be larger than what it scrolls in.
(() => {
  const wrong = [];
  const slack = 1.5; // px: boxes end between pixels
  const what = (el) => {
    const kind = el.className?.baseVal ?? el.className;
    return `${el.tagName.toLowerCase()}${el.id && `#${el.id}`}${kind && `.${String(kind).trim().replace(/\s+/g, ".")}`} "${(el.textContent || "").trim().slice(0, 40)}"`;
  };
  const style = new Map();
  const css = (el) => style.get(el) || style.set(el, getComputedStyle(el)).get(el);
  const scrolls = (el) => /auto|scroll/.test(css(el).overflowX + css(el).overflowY);
  const inline = (el) => /^(inline|contents)$/.test(css(el).display);
  const clips = (el) => /hidden|clip/.test(css(el).overflowX);
  const titled = (el) => Boolean(el.closest("[title]")?.getAttribute("title"));
  const skip = (el) => el.closest(".visually-hidden, #skip, dialog:not([open]), .u-wrap, [hidden], option, script, style, noscript, template, title");
  const seen = (el) => el.getClientRects().length > 0 && el.checkVisibility({ checkVisibilityCSS: true });

  // box is the nearest ancestor that isn't part of a line of text.
  function box(el) {
    let up = el.parentElement;
    while (up && inline(up)) up = up.parentElement;
    return up;
  }

  function leaves(rect, up, vertical) {
    if (!up || up === document.body || up === document.documentElement || scrolls(up)) return "";
    const b = up.getBoundingClientRect();
    if (rect.right > b.right + slack) return `${Math.round(rect.right - b.right)} px to the right of`;
    if (rect.left < b.left - slack) return `${Math.round(b.left - rect.left)} px to the left of`;
    if (vertical && rect.bottom > b.bottom + 2 * slack) return `${Math.round(rect.bottom - b.bottom)} px below`;
    return "";
  }

  for (const el of document.querySelectorAll("body *")) {
    if (skip(el) || !seen(el)) continue;
    const svg = el.ownerSVGElement;
    if (svg) {
      if (el.tagName !== "text" && !el.classList.contains("spark-line")) continue;
      const where = leaves(el.getBoundingClientRect(), svg, true);
      if (where) wrong.push(`${what(el)} is ${where} its drawing`);
      continue;
    }
    const positioned = /absolute|fixed/.test(css(el).position);
    const up = box(el);
    if (!positioned && !clips(up || el)) {
      const where = leaves(el.getBoundingClientRect(), up, !inline(el));
      if (where) wrong.push(`${what(el)} is ${where} ${what(up)}`);
    }
    const texts = [...el.childNodes].filter((n) => n.nodeType === 3 && n.data.trim());
    const holder = inline(el) ? up : el;
    for (const text of texts) {
      const range = document.createRange();
      range.selectNodeContents(text);
      if (holder && !clips(holder)) {
        const where = leaves(range.getBoundingClientRect(), holder, false);
        if (where) wrong.push(`text "${text.data.trim().slice(0, 40)}" is ${where} ${what(holder)}`);
      }
    }
    if (clips(el) && !scrolls(el) && (el.textContent || "").trim() && el.tagName !== "SELECT") {
      const across = el.scrollWidth > el.clientWidth + slack, down = el.scrollHeight > el.clientHeight + 2 * slack;
      if (across && (css(el).textOverflow !== "ellipsis" || !titled(el))) wrong.push(`cut without an ellipsis and a title: ${what(el)}`);
      if (down && !across) wrong.push(`cut below: ${what(el)}`);
    }
    if (el.tagName === "SELECT" && !el.selectedOptions.length) wrong.push(`nothing is chosen: ${what(el.parentElement)}`);
    if (el.tagName === "SELECT" || el.placeholder) {
      const pen = document.createElement("canvas").getContext("2d");
      pen.font = css(el).font;
      const text = el.placeholder || el.selectedOptions[0]?.textContent || "";
      const room = el.clientWidth - parseFloat(css(el).paddingLeft) - parseFloat(css(el).paddingRight);
      if (pen.measureText(text).width > room + slack && !titled(el)) wrong.push(`cut: the choice "${text}" in ${Math.round(room)} px`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} px wide on ${innerWidth} px`);
  return [...new Set(wrong)].slice(0, 20);
})()
