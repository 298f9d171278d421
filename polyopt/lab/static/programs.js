// The program with the numbers of this moment, and its dual beside it; what binds is highlighted.

import { h, near, s, say } from "./dom.js";

/** An element around HTML of the engine, which comes escaped. */
function html(tag, attributes, text) {
  const element = h(tag, attributes);
  element.innerHTML = text;
  return element;
}

/** The sample that a row is of, and its face where it is one's. */
const owner = (each) => (each.face === null || each.face === undefined || each.face < 0 ? `${each.sample}` : `${each.sample}, face ${each.face}`);

/** Which samples' rows bind, as a bar with a stroke for each. */
function strip(ticked) {
  const strokes = ticked.map((on, i) => (on ? `M${i + 0.5} 0V6` : "")).join("");
  return s("svg", { class: "ticks", viewBox: `0 0 ${ticked.length} 6`, preserveAspectRatio: "none", "aria-hidden": "true" }, s("path", { d: strokes }));
}

function rowOf(row) {
  const head = h("summary", {}, html("span", { class: "formula" }, row.mathml),
    row.count > 0 && h("span", { class: "count", text: `${row.binding} of ${row.count} bind` }));
  const ticked = (row.numbers ?? []).map((each) => (each.binding ? 1 : 0));
  if (ticked.length > 1) head.append(strip(ticked));
  const meaning = html("p", { class: "quiet" }, row.letter && row.letter !== "–" ? `multiplier ${row.letter}: ` : "");
  meaning.append(row.meaning ?? "");
  const element = h("details", { class: `row${row.binding > 0 ? " binding" : ""}`, "data-row": row.row }, head, meaning);
  // There may be hundreds of numbers, which few want to see.
  element.addEventListener("toggle", () => element.open && row.numbers?.length && !element.querySelector("table")
    && element.append(numbersOf(row.numbers)));
  return element;
}

function numbersOf(numbers) {
  const cells = numbers.map((each) => h("tr", { class: each.binding ? "binding" : "" },
    h("td", { text: owner(each) }), h("td", { text: near(each.left) }), h("td", { text: near(each.multiplier) }),
    h("td", { text: near(each.slack) }), h("td", { class: "text", text: each.words ?? "" })));
  const heads = ["sample", "left side", "multiplier", "slack"].map((text) => h("th", { scope: "col", text }));
  return h("div", { class: "scroll numbers", tabindex: 0 }, h("table", {},
    h("thead", {}, h("tr", {}, heads, h("th", { scope: "col", class: "text", text: "in words" }))), h("tbody", {}, cells)));
}

function side(program, heading) {
  const variables = program.variables.map((each) => h("li", {}, each.mathml ? html("span", {}, each.mathml) : each.name, ` = ${each.value}`));
  const where = program.where?.length ? h("details", { class: "where" }, h("summary", { text: "where" }),
    h("ul", {}, program.where.map((text) => html("li", {}, text)))) : null;
  return h("article", { class: "side" }, h("h3", { text: heading }),
    h("p", { class: "quiet", text: [`${program.title} — ${program.source}`, program.size].filter(Boolean).map((each) => `${each}.`).join(" ") }),
    html("div", { class: "scroll objective", tabindex: 0 }, program.objective),
    h("p", { class: "worth", text: program.value_words ?? "" }),
    h("div", { class: "rows" }, program.rows.map(rowOf)),
    variables.length ? h("ul", { class: "variables" }, variables) : null, where,
    program.note ? h("p", { class: "quiet", text: program.note }) : null);
}

export class Programs {
  constructor(lab) {
    this.lab = lab;
    this.sentence = h("p", { class: "quiet" });
    this.sides = h("div", { class: "sides", "aria-live": "off" });
    this.element = h("details", { class: "programs" }, h("summary", { text: "The program with these numbers, and its dual beside it" }),
      this.sentence, this.sides);
    this.element.addEventListener("toggle", () => this.element.open && this.fetch());
    this.stale = true;
  }

  /** A new picture: the numbers are old. */
  renew() {
    this.stale = true;
    this.sides.classList.add("stale");
    if (this.element.open) this.fetch();
  }

  /** There is no picture, and so no numbers. */
  forget() {
    this.stale = true;
    say(this.sentence, "");
    this.sides.replaceChildren();
  }

  async fetch() {
    if (this.asking || !this.stale || !this.lab.picture) return;
    this.asking = true;
    this.stale = false;
    const open = new Set([...this.sides.querySelectorAll("details[open]")].map((each) => each.dataset.row));
    const answer = await this.lab.desk.ask("program", { state: this.lab.model.wire() });
    this.asking = false;
    if (this.stale) return void this.fetch();
    if (answer.kind !== "program") {
      say(this.sentence, answer.sentence ?? "");
      return void this.sides.replaceChildren();
    }
    say(this.sentence, answer.sentence ?? "");
    this.sides.classList.remove("stale");
    this.sides.replaceChildren(side(answer.primal, "Primal"), ...(answer.dual ? [side(answer.dual, "Dual")] : []));
    for (const each of this.sides.querySelectorAll("details[data-row]")) each.open = open.has(each.dataset.row);
  }
}
