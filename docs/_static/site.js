// Timelines and results follow the theme that the reader chose on the page.
const follow = () => {
  const chosen = document.body.dataset.theme, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = chosen === "light" || chosen === "dark" ? chosen : dark ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.jpThemeLight = String(theme === "light");
};
document.addEventListener("DOMContentLoaded", () => {
  follow();
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
  // The theme leaves out what readers of the screen need: levels of headings, and that the keyboard can scroll.
  for (const one of document.querySelectorAll('[role="heading"]:not([aria-level])')) one.setAttribute("aria-level", "2");
  for (const one of document.querySelectorAll(".table-wrapper, pre")) one.tabIndex = 0;
});
