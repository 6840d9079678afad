// A list of which several lines can be chosen: one box for all of them, and how many are chosen.
for (const form of document.querySelectorAll("form[data-choosing]")) {
  const boxes = [...form.querySelectorAll('input[name="chosen"]')];
  const head = form.querySelector("[data-choose-all]");
  const count = form.querySelector("[data-chosen-count]");
  const buttons = [...form.querySelectorAll('button[name="verb"]')];
  if (!head || !boxes.length) continue;

  const all = document.createElement("input");
  all.type = "checkbox";
  all.setAttribute("aria-label", "Choose all on this page");
  head.replaceChildren(all);

  const show = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    all.checked = chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
    count.textContent = chosen ? `${chosen} chosen:` : "None chosen";
    for (const button of buttons) button.disabled = !chosen;
  };
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    show();
  });
  form.addEventListener("change", show);
  show();
}
