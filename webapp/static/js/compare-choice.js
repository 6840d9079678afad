// A list of runs of which two to six can be compared.
const LEAST = 2;
const MOST = 6;

for (const form of document.querySelectorAll("[data-compare-form]")) {
  const button = form.querySelector("button[type=submit]");
  const hint = form.querySelector("[data-compare-hint]");
  if (!button) continue;
  const update = () => {
    const ticked = form.querySelectorAll("input[name=run]:checked").length;
    button.disabled = ticked < LEAST || ticked > MOST;
    if (ticked === 0) hint.textContent = `Select ${LEAST} to ${MOST} runs to compare`;
    else if (ticked < LEAST) hint.textContent = "Select one more run";
    else hint.textContent = ticked > MOST ? `Select ${MOST} runs at most` : `${ticked} runs selected`;
  };
  const all = form.querySelector("[data-select-all]");
  if (all) all.hidden = false;
  all?.addEventListener("change", () => {
    for (const box of form.querySelectorAll("input[name=run]")) box.checked = all.checked;
  });
  form.addEventListener("change", update);
  update();
}
