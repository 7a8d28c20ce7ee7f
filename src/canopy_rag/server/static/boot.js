// Before the first paint: the theme that was chosen here earlier.
try {
  const theme = localStorage.getItem("canopy-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (error) {
  // Without storage the page follows the system.
}
