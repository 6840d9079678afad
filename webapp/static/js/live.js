// While a run changes, the parts marked `data-live` are fetched again; not while nobody looks.
const EVERY_MS = 10_000;

export function keepFresh(afterwards) {
  const isChanging = () => document.querySelector("[data-changing]") !== null;
  let timer;
  const next = () => {
    clearTimeout(timer);
    if (isChanging() && !document.hidden) timer = setTimeout(refresh, EVERY_MS);
  };
  const refresh = async () => {
    try {
      const response = await fetch(location.href);
      if (response.ok && !response.redirected) {
        replace(new DOMParser().parseFromString(await response.text(), "text/html"));
        afterwards();
      }
    } catch {
      // The service is away: what is shown stays, and the next round tries again.
    }
    next();
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isChanging()) refresh();
    else next();
  });
  next();
}

function replace(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const newer = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
    if (newer && newer.innerHTML !== part.innerHTML && !part.contains(document.activeElement)) {
      keepUnfolded(part, newer);
      part.replaceWith(newer);
    } else if (newer && "changing" in part.dataset && !("changing" in newer.dataset)) delete part.dataset.changing;
  }
}

// What a person has opened stays open.
function keepUnfolded(part, newer) {
  const folds = newer.querySelectorAll("details");
  part.querySelectorAll("details").forEach((fold, index) => {
    if (fold.open && folds[index]) folds[index].open = true;
  });
}
