// Applies the chosen theme before the first paint; without a choice, the page follows the system (base.css).
"use strict";
try {
  const chosen = localStorage.getItem("raymirror-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system.
}
