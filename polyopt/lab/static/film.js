// The path over a parameter as a film strip; a click takes a frame's value over.

import { h, number, say } from "./dom.js";
import { claimOf } from "./figures.js";
import { shade } from "./shading.js";
import { contour } from "./shapes.js";

const SIZE = 132;  // pixels of a frame
const DASHES = { boundary: [], margin: [4, 3], bound: [6, 2, 1, 2] };

export class Film {
  constructor(lab) {
    this.lab = lab;
    this.turn = 0;  // of films; what is told of an earlier one comes too late
    this.parameter = h("select", { "aria-label": "Parameter of the film strip" });
    this.begin = h("button", { type: "button", "data-name": "film", text: "Draw the film strip", onclick: () => this.fetch() });
    this.strip = h("ol", { class: "strip scroll", tabindex: 0, "aria-label": "Frames of the path" });
    this.element = h("section", { class: "film", "aria-label": "Path over a parameter" },
      h("h2", { text: "One parameter, from small to large" }),
      h("div", { class: "buttons" }, h("label", {}, "over ", this.parameter), this.begin), this.strip);
  }

  update() {
    const { entry, controls } = this.lab, paths = entry.offers.includes("path") ? entry.paths.filter((name) => controls.matters(name)) : [];
    this.element.hidden = paths.length === 0;
    if ([...this.parameter.options].map((each) => each.value).join() !== paths.join()) {
      this.parameter.replaceChildren(...paths.map((value) => h("option", { value, text: value, selected: value === "C" })));
    }
  }

  clear() {
    this.turn += 1;
    this.over = "";
    this.strip.replaceChildren();
  }

  async fetch() {
    const { lab } = this, parameter = this.parameter.value, points = lab.model.points.map((point) => ({ ...point }));
    this.clear();
    const { turn } = this;
    this.over = parameter;
    this.begin.disabled = true;
    const asked = { state: lab.model.wire(), parameter, values: null, count: 9, grid: [32, 32], view: lab.view.box };
    const answer = await lab.long("path", asked, ({ frame }) => frame && turn === this.turn && this.strip.append(this.frame(frame, parameter, points)));
    this.begin.disabled = false;
    if (answer.kind === "path" && turn === this.turn) this.strip.replaceChildren(...answer.frames.map((frame) => this.frame(frame, parameter, points)));
  }

  frame(frame, parameter, points) {
    const canvas = h("canvas", { "aria-hidden": "true" }), view = frame.grid?.view ?? frame.view ?? this.lab.view.box;
    const picture = { view, levels: frame.levels ?? [], grid: frame.grid, faces: frame.faces ?? [], inside: frame.inside ?? 1 };
    shade(canvas, picture, this.lab.palette, SIZE, SIZE, 2);
    const pen = canvas.getContext("2d"), [x0, x1, y0, y1] = view;
    pen.scale(2, 2);
    const ink = `rgb(${this.lab.palette.rgb("ink").join(",")})`;
    const place = (x, y) => [((x - x0) / (x1 - x0)) * SIZE, ((y1 - y) / (y1 - y0)) * SIZE];
    for (const label of [1, -1]) {
      pen.fillStyle = `rgb(${this.lab.palette.rgb(label > 0 ? "positive" : "negative").join(",")})`;
      for (const point of points) {
        const [x, y] = place(point.x, point.y);
        if (point.label === label) pen.fillRect(x - 1.2, y - 1.2, 2.4, 2.4);
      }
    }
    pen.strokeStyle = ink;
    for (const { value, name } of picture.grid ? picture.levels : []) {
      const { nx, ny, numbers } = frame.grid;
      pen.setLineDash(DASHES[name] ?? []);
      pen.lineWidth = name === "boundary" ? 1.5 : 0.9;
      pen.stroke(new Path2D(contour(numbers, nx, ny, value * (1 + 1e-5), (i, j) => [(i / (nx - 1)) * SIZE, (1 - j / (ny - 1)) * SIZE])));
    }
    const [word, colour] = claimOf(frame.certificate, "optimal if held");
    const button = h("button", {
      type: "button", class: "shot", title: `Take ${parameter} = ${number(frame.value, 3)} over`,
      onclick: () => this.lab.set(parameter, frame.value),
    }, canvas, h("b", { text: `${parameter} = ${number(frame.value, 3)}` }),
    h("span", { class: "quiet", text: frame.support === null || frame.support === undefined ? "" : `${frame.support} support vectors` }),
    h("span", { class: `badge ${colour}`, text: word }));
    return h("li", {}, button);
  }
}
