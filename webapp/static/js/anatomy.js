// The list of a page's sections: marks the one in view, and unfolds what a link leads into.
function sections() {
  return [...document.querySelectorAll("[data-index] a")]
    .map((link) => ({ link, section: document.querySelector(link.hash) }))
    .filter(({ section }) => section);
}

// The last section that begins above the upper third of the window. At the end of the page, where none
// can get there, the one that was asked for, or the last.
function current(listed) {
  const top = ({ section }) => section.getBoundingClientRect().top;
  const isAtEnd = window.scrollY + window.innerHeight >= document.documentElement.scrollHeight - 2;
  if (isAtEnd) {
    const asked = listed.find(({ link }) => link.hash === location.hash);
    return asked && top(asked) >= 0 && top(asked) < window.innerHeight ? asked : listed.at(-1);
  }
  return listed.filter((each) => top(each) <= window.innerHeight / 3).at(-1) || listed[0];
}

function mark() {
  const listed = sections();
  const here = current(listed);
  for (const { link } of listed) {
    if (link === here?.link) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function unfold() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  let wasFolded = false;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    wasFolded ||= !fold.open;
    fold.open = true;
  }
  if (wasFolded) target.scrollIntoView();
}

let waiting;
document.addEventListener("scroll", () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(mark);
}, { passive: true });
window.addEventListener("hashchange", unfold);
unfold();
mark();
