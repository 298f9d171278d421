
"use strict";
// Tables that sort, details that open for the printer and for a link, boxes that scroll by keyboard.
const words = new Intl.Collator(undefined, { numeric: true });
const buttons = [];
let opened = [];

function number(text) {
  const plain = text.trim().replace(/[,\u202f\u00a0]/g, "").replace(/^\u2212/, "-");
  if (/^-?(inf|\u221e)/.test(plain)) return plain[0] === "-" ? -Infinity : Infinity;
  return parseFloat(plain);
}

function rowsOf(body) {
  const groups = [];
  for (const row of body.rows) {
    if (row.classList.contains("note") && groups.length) groups[groups.length - 1].push(row);
    else groups.push([row]);
  }
  return groups;
}

// On paper a heading with a button in it is not said again at the top of the next page.
function withButtons(on) {
  for (const [head, button] of buttons) {
    if (on) {
      button.append(...head.childNodes);
      head.append(button);
    } else head.replaceChildren(...button.childNodes);
  }
}

function sorter(table) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], first = rowsOf(body);
  const key = (group, place) => (group[0].cells[place] ? group[0].cells[place].textContent.trim() : "");
  function sort(place) {
    const head = heads[place], was = head.getAttribute("aria-sort");
    const now = was === "ascending" ? "descending" : was === "descending" ? "" : "ascending";
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    const sign = now === "descending" ? -1 : 1, text = head.classList.contains("text");
    const missing = (value) => (text ? value === "" || value === "\u2013" : Number.isNaN(value));
    let groups = first;
    if (now) {
      head.setAttribute("aria-sort", now);
      const keyed = first.map((group) => [text ? key(group, place) : number(key(group, place)), group]);
      keyed.sort(([a], [b]) => {
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        return sign * (text ? words.compare(a, b) : a < b ? -1 : a > b ? 1 : 0);
      });
      groups = keyed.map(([, group]) => group);
    }
    body.classList.toggle("sorted", Boolean(now));
    body.append(...groups.flat());
  }
  heads.forEach((head, place) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    buttons.push([head, button]);
    button.addEventListener("click", () => sort(place));
  });
}

function openFor(hash) {
  const target = hash && document.getElementById(decodeURIComponent(hash.slice(1)));
  const closed = target && target.closest("details");
  if (closed && !closed.open) {
    closed.open = true;
    target.scrollIntoView();
  }
}

addEventListener("beforeprint", () => {
  withButtons(false);
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => {
  withButtons(true);
  opened.forEach((each) => { each.open = false; });
});
addEventListener("hashchange", () => openFor(location.hash));

function reachable() {
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

document.querySelectorAll("table.sortable").forEach(sorter);
withButtons(true);
openFor(location.hash);
reachable();
addEventListener("resize", reachable);
