// Opens the home page as soon as the workspace has a job; doesn't ask while nobody looks.
import { news } from "./live.js";

const EVERY_MS = 5_000;
const waiting = document.querySelector("[data-onboarding]");

async function look() {
  if (!document.hidden) {
    try {
      const newer = await news(waiting.dataset.version);
      if (newer && !newer.page.querySelector("[data-onboarding]")) {
        location.replace(location.href); // Without asking for another token.
        return;
      }
    } catch {
      // The service is away: the next round tries again.
    }
  }
  setTimeout(look, EVERY_MS);
}

waiting.querySelector("span").hidden = false;
setTimeout(look, EVERY_MS);
