// One sample: why it is a support vector or none, and its rows of the optimality conditions.

import { h, near, number, say } from "./dom.js";

/** A row's name, and its face where it is one's. */
const named = ({ row, face }) => `${row.replaceAll("_", " ")}${face === null || face === undefined || face < 0 ? "" : `, face ${face}`}`;

let persons = 0;

export class Person {
  constructor(lab) {
    this.lab = lab;
    this.title = h("h2", { text: "Sample" });
    this.why = h("p", { class: "why", id: `polyopt-why-${++persons}` });
    this.rows = h("div", { class: "scroll", tabindex: 0 });
    this.element = h("section", { class: "person", "aria-label": "One sample" }, this.title, this.why, this.rows);
    this.show(null);
  }

  /** A sample of the model; null for none. */
  show(point) {
    const { lab } = this, i = point ? lab.place(point) : -1;
    this.shown = point?.id ?? null;
    if (!point) {
      say(this.title, "Why is this sample a support vector?");
      return this.tell("Point at a sample, or reach it by Tab.", []);
    }
    const number_ = lab.model.points.indexOf(point);
    say(this.title, `Sample ${number_}, class ${point.label > 0 ? "+1" : "−1"}`);
    if (i < 0) return this.tell(`At (${number(point.x, 3)}, ${number(point.y, 3)}).`, []);
    return lab.desk.ask("explain", { sample: i }).then((answer) => {
      if (answer.kind === "explain" && this.shown === point.id && lab.picture?.id === answer.of) this.tell(answer.why, answer.rows);
    });
  }

  tell(why, rows) {
    say(this.why, why);
    this.rows.hidden = !rows.length;
    const head = ["row", "multiplier", "slack"].map((text, i) => h("th", { scope: "col", class: i ? "" : "text", text }));
    const body = rows.map((row) => h("tbody", { class: row.binding ? "binding" : "" }, h("tr", {},
      h("td", { class: "text", text: named(row) }), h("td", { text: `${row.letter} ${row.binding || !row.multiplier ? `= ${number(row.multiplier)}` : "≈ 0"}` }),
      h("td", { text: near(row.slack) })), h("tr", {}, h("td", { class: "text words", colspan: 3, text: row.words }))));
    this.rows.replaceChildren(h("table", {}, h("caption", { text: "Its rows of the optimality conditions" }),
      h("thead", {}, h("tr", {}, head)), body));
  }
}
