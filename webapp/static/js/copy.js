// A button that copies the text of the element it names.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const from = document.querySelector(`[data-copied="${button.dataset.copy}"]`);
    await navigator.clipboard.writeText(from.textContent);
    button.textContent = "Copied";
  });
}
