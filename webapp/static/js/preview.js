// Shows beside a changed threshold what it would have done to past runs, before anything is saved.
const form = document.querySelector("[data-previewed]");
const shown = document.querySelector("[data-preview]");
let asked = new AbortController();

async function preview(changed) {
  asked.abort();
  asked = new AbortController();
  const body = new FormData(form);
  body.set("preview", "1");
  const answer = await fetch(location.href, { method: "POST", body, signal: asked.signal });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  changed.closest(".form").append(shown);
  shown.innerHTML = page.querySelector("[data-preview]").innerHTML;
}

form?.addEventListener("change", (event) => {
  preview(event.target).catch(() => {
    // The service is away, or something was changed again: the button still asks.
  });
});
