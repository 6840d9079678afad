// While something changes, the parts marked `data-live` are fetched again, if the service has news: less
// often the longer it has none, and not while nobody looks.
import { ago } from "./format.js";

const EVERY_MS = 10_000;
const AT_MOST_MS = 60_000;
const SLOWER = 1.5;

// What the page at this address shows now; null: nothing new.
export async function news(version) {
  const response = await fetch(location.href, { headers: { "If-None-Match": version, "Trimtab-Live": "1" } });
  if (response.status === 304) return null;
  if (!response.ok || response.redirected) throw new Error(`HTTP ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  return { page, version: response.headers.get("ETag") };
}

export function keepFresh(afterwards = () => {}) {
  const isChanging = () => document.querySelector("[data-changing]") !== null;
  let version = document.querySelector("[data-version]")?.dataset.version || "";
  let wait = EVERY_MS;
  let timer;
  const next = () => {
    clearTimeout(timer);
    if (isChanging() && !document.hidden) timer = setTimeout(refresh, wait);
  };
  const refresh = async () => {
    try {
      const newer = await news(version);
      if (newer) {
        version = newer.version || "";
        replace(newer.page);
        afterwards();
      }
      wait = newer ? EVERY_MS : Math.min(wait * SLOWER, AT_MOST_MS);
    } catch {
      // The service is away: what is shown stays, and a later round tries again.
      wait = Math.min(wait * 2, AT_MOST_MS);
    }
    tellTimes();
    next();
  };
  document.addEventListener("visibilitychange", () => {
    wait = EVERY_MS;
    if (!document.hidden && isChanging()) refresh();
    else next();
  });
  next();
}

function replace(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const newer = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
    if (newer && newer.innerHTML !== part.innerHTML && !isInUse(part)) {
      keepUnfolded(part, newer);
      part.replaceWith(newer);
    } else if (newer && "changing" in part.dataset && !("changing" in newer.dataset)) delete part.dataset.changing;
  }
}

// Somebody is at one of its buttons, or has a question of it open.
function isInUse(part) {
  const isOpen = CSS.supports("selector(:popover-open)") && part.querySelector(":popover-open");
  return isOpen || part.contains(document.activeElement);
}

// What a person has opened stays open.
function keepUnfolded(part, newer) {
  const folds = newer.querySelectorAll("details");
  part.querySelectorAll("details").forEach((fold, index) => {
    if (fold.open && folds[index]) folds[index].open = true;
  });
}

// Time passes without news, too.
function tellTimes() {
  for (const time of document.querySelectorAll("[data-live] time[datetime]")) {
    const words = ago((Date.now() - new Date(time.dateTime)) / 1000);
    if (words) time.textContent = words;
  }
}
