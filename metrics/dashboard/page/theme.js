// The theme: light, dark, or the system's.

const order = ["system", "light", "dark"];
const name = "swarm-theme";

function kept() {
  try {
    return order.find((t) => t === localStorage.getItem(name)) || "system";
  } catch {
    return "system"; // no storage here
  }
}

// theme shows the choice on a button, and returns a function that selects the next theme.
export function theme(button) {
  let now = kept();
  const show = () => {
    if (now === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    button.textContent = { system: "◐", light: "☀", dark: "☾" }[now];
    button.setAttribute("aria-label", `theme: ${now}`);
    button.title = `Theme: ${now}`;
  };
  const next = () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    try {
      localStorage.setItem(name, now);
    } catch {
      // the choice lasts until the page is closed
    }
    show();
  };
  button.addEventListener("click", next);
  show();
  return next;
}
