"use strict";
(() => {
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("tacit-theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme || (preferred.matches ? "dark" : "light")) === "dark";
  const stored = kept();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  const begin = () => {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Change to the ${dark() ? "light" : "dark"} theme`);
    };
    button.hidden = false;
    label();
    preferred.addEventListener("change", label);
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("tacit-theme", root.dataset.theme); } catch { /* a page of a file may have no store */ }
      label();
    });
    reach();
  };

  // what is wider than the page can be scrolled by keys, too
  const reach = () => {
    for (const one of document.querySelectorAll(".scroll, pre, nav"))
      if (one.scrollWidth > one.clientWidth + 1 && !one.querySelector("a, button")) one.tabIndex = 0;
      else one.removeAttribute("tabindex");
  };
  document.addEventListener("DOMContentLoaded", begin);
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
})();
