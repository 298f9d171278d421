// The plane: a canvas for the shading, and an SVG over it for lines, axes and samples.

import { h, marks, put, s } from "./dom.js";
import { colourOfFace, shade } from "./shading.js";
import { across, contour, cut } from "./shapes.js";

const MARKER = { 1: "M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0Z", "-1": "M0 -6.4L5.9 4.4L-5.9 4.4Z" };
const RING = { least: 7, most: 12 };  // pixels: radius for the smallest and the largest multiplier
const SMALL = 420;  // pixels across, under which samples are drawn smaller
const SHARPNESS = { moving: 0.35, rest: 0.6 };  // pixels of the shading per pixel of the page

let planes = 0;

export class Plane {
  /**
   * @param frame    The element that the picture fills.
   * @param view     What is seen.
   * @param palette  The colours.
   */
  constructor(frame, view, palette) {
    Object.assign(this, { frame, view, palette, nodes: new Map(), describedBy: null });
    const clip = `polyopt-plane-${++planes}`;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.clip = s("rect", {});
    this.axes = s("g", { class: "axes", "aria-hidden": "true" });
    this.lines = s("g", { class: "lines", "aria-hidden": "true", "clip-path": `url(#${clip})` });
    this.steps = s("g", { class: "steps", "aria-hidden": "true", "clip-path": `url(#${clip})` });
    this.samples = s("g", { class: "samples", role: "group", "aria-label": "Samples" });
    this.svg = s("svg", { class: "plane", role: "none" }, s("clipPath", { id: clip }, this.clip),
      this.axes, this.lines, this.steps, this.samples);
    frame.append(this.canvas, this.svg);
  }

  /** Take the size of the frame; whether it is another one. */
  measure() {
    const { width, height } = this.frame.getBoundingClientRect(), { view } = this;
    if (width < 60 || height < 60 || (width === view.width && height === view.height)) return false;
    [view.width, view.height] = [width, height];
    put(this.svg, { viewBox: `0 0 ${width} ${height}`, width, height });
    const { x, y, w, h: high } = view.inner;
    put(this.clip, { x, y, width: w, height: high });
    return true;
  }

  drawAxes(names) {
    const { view } = this, [x0, x1, y0, y1] = view.box, { x, y, w, h: high } = view.inner;
    const right = x + w, low = y + high, parts = [];
    const along = marks(x0, x1, w / 75), upwards = marks(y0, y1, high / 55);
    for (const [value, text] of along.marks) {
      const [px] = view.to(value, 0);
      parts.push(s("path", { class: "tick", d: `M${px} ${low}v4` }), s("text", { x: px, y: low + 16, "text-anchor": "middle", text }));
    }
    for (const [value, text] of upwards.marks) {
      const [, py] = view.to(0, value);
      parts.push(s("path", { class: "tick", d: `M${x} ${py}h-4` }), s("text", { x: x - 7, y: py + 4, "text-anchor": "end", text }));
    }
    parts.push(s("path", { class: "rim", d: `M${x} ${y}V${low}H${right}` }));
    const [across_, up] = [along, upwards].map(({ note }, i) => [names?.[i], note].filter(Boolean).join(" "));
    if (across_) parts.push(s("text", { class: "name", x: right - 6, y: low - 7, "text-anchor": "end", text: across_ }));
    if (up) parts.push(s("text", { class: "name", x: x + 8, y: y + 14, text: up }));
    this.axes.replaceChildren(...parts);
  }

  /** The shading and the lines of a picture; where the view has moved since, they lie where they belong. */
  drawPicture(picture, moving = false) {
    const { view, canvas } = this;
    this.lines.replaceChildren();
    if (!picture) return void (canvas.hidden = true);
    canvas.hidden = !picture.grid;
    const [x0, x1, y0, y1] = picture.view, [left, top] = view.to(x0, y1), [right, low] = view.to(x1, y0);
    const inner = view.inner;
    shade(canvas, picture, this.palette, inner.w, inner.h, moving ? SHARPNESS.moving : SHARPNESS.rest);
    Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${low - top}px` });
    const cropped = [inner.y - top, right - inner.x - inner.w, low - inner.y - inner.h, inner.x - left];
    canvas.style.clipPath = `inset(${cropped.map((each) => `${Math.max(0, each)}px`).join(" ")})`;
    if (picture.grid) this.drawLevels(picture);
    this.drawFaces(picture.faces);
  }

  drawLevels({ grid, view: [x0, x1, y0, y1], levels }) {
    const { nx, ny, numbers } = grid;
    const place = (i, j) => this.view.to(x0 + (i / (nx - 1)) * (x1 - x0), y0 + (j / (ny - 1)) * (y1 - y0));
    for (const { value, name } of levels) {
      // What lies flat at a level, as a face does that answers for nobody, is no line, whichever way it rounds.
      const d = contour(numbers, nx, ny, value * (1 + 1e-5), place);
      if (d) this.lines.append(s("path", { class: `level ${name}`, d }));
    }
  }

  /** Each face as its line: strong where it is the rim of its polytope, thin beyond. */
  drawFaces(faces, group = this.lines) {
    const { view } = this, rim = new Set(), strong = [], thin = [];
    const path = (kind, one, other) => s("path", { class: `face ${kind}`, d: `M${one.join(" ")}L${other.join(" ")}` });
    for (const piece of new Set(faces.map((face) => face.piece ?? 0))) {
      const own = [...faces.keys()].filter((k) => (faces[k].piece ?? 0) === piece);
      const corners = cut(view.box, own.map((k) => faces[k]));
      corners.forEach(([here, edge], i) => {
        if (edge < 0) return;
        const k = own[edge], [there] = corners[(i + 1) % corners.length];
        rim.add(k);
        strong.push(path(`rim ${colourOfFace(k)}`, view.to(...here), view.to(...there)));
      });
    }
    const numbers = [];
    faces.forEach((face, k) => {
      const ends = across(view.box, face)?.map((end) => view.to(...end));
      if (!ends) return;
      thin.push(path(`${colourOfFace(k)}${rim.has(k) ? "" : " idle"}`, ...ends));
      numbers.push(...this.numberOf(k, ...ends));
    });
    group.append(...thin, ...strong, ...(group === this.lines ? numbers : []));
  }

  /** A face's number near the end of its line that lies higher. */
  numberOf(k, one, other) {
    const [[ax, ay], [bx, by]] = one[1] < other[1] ? [one, other] : [other, one];
    const long = Math.hypot(bx - ax, by - ay), t = Math.min(0.5, 22 / (long || 1));
    const [x, y] = [ax + t * (bx - ax), ay + t * (by - ay)];
    return [s("circle", { class: `number ${colourOfFace(k)}`, cx: x, cy: y, r: 9 }),
      s("text", { class: "number", x, y: y + 3.8, "text-anchor": "middle", text: k })];
  }

  /**
   * The samples.
   *
   * @param points  Of the model.
   * @param looks   From a point to {size, family, capped, wrong, face, chance}; null for one that is not known yet.
   */
  drawSamples(points, looks, chosen) {
    const alive = new Set();
    points.forEach((point, i) => {
      alive.add(point.id);
      let node = this.nodes.get(point.id);
      if (!node) {
        node = s("g", { class: "sample", tabindex: 0, role: "button", "data-id": point.id,
          "aria-roledescription": "sample", "aria-describedby": this.describedBy },
          s("circle", { class: "near", r: 15 }), s("circle", { class: "ring" }), s("path", { class: "marker" }));
        this.nodes.set(point.id, node);
        const later = points.slice(i + 1).find((each) => this.nodes.has(each.id));
        this.samples.insertBefore(node, later ? this.nodes.get(later.id) : null);
      }
      this.drawSample(node, point, looks(point), point.id === chosen);
    });
    for (const [id, node] of this.nodes) {
      if (alive.has(id)) continue;
      node.remove();
      this.nodes.delete(id);
    }
  }

  drawSample(node, point, look, chosen) {
    const [px, py] = this.view.to(point.x, point.y), [, ring, marker] = node.children, { x, y, w, h: high } = this.view.inner;
    const away = px < x - 1 || px > x + w + 1 || py < y - 1 || py > y + high + 1;
    const kind = [point.label > 0 ? "positive" : "negative", look?.wrong && "wrong", chosen && "chosen", away && "away"];
    const small = w < SMALL ? " scale(0.75)" : "";
    put(node, { transform: `translate(${px.toFixed(2)},${py.toFixed(2)})${small}`, class: `sample ${kind.filter(Boolean).join(" ")}` });
    put(marker, { d: MARKER[point.label], class: `marker ${look?.face >= 0 ? colourOfFace(look.face) : ""}` });
    if (look?.chance !== undefined) {
      const round = 2 * Math.PI * 10;
      put(ring, { class: "ring chance", r: 10, "stroke-dasharray": `${(look.chance * round).toFixed(1)} ${round.toFixed(1)}` });
    } else if (look?.size > 0) {
      const r = RING.least + (RING.most - RING.least) * Math.sqrt(look.size);
      put(ring, { class: `ring family${look.family}${look.capped ? " capped" : ""}`, r: r.toFixed(1), "stroke-dasharray": null });
    } else put(ring, { class: "ring none", r: 0, "stroke-dasharray": null });
  }

  /** One step of a solver over the picture: its line, or its faces; and dashed beside it what the exact solver ends with. */
  drawStep(step, shape, best = []) {
    this.steps.replaceChildren();
    if (!step?.faces) return;
    if (shape === "polytope") {
      const corners = cut(this.view.box, best).map(([corner]) => this.view.to(...corner).join(" "));
      if (best.length && corners.length) this.steps.append(s("path", { class: "best", d: `M${corners.join("L")}Z` }));
      return this.drawFaces(step.faces, this.steps);
    }
    const draw = (kind, face) => {
      const ends = across(this.view.box, face)?.map((end) => this.view.to(...end).join(" "));
      if (ends) this.steps.append(s("path", { class: kind, d: `M${ends.join("L")}` }));
    };
    for (const face of best) draw("best", face);
    for (const { w, b } of step.faces) {
      for (const [shift, kind] of [[0, "boundary"], [1, "margin"], [-1, "margin"]]) draw(`level ${kind}`, { w, b: b - shift });
    }
  }

  /** The sample at a place in pixels, within a reach of it. */
  near(points, px, py, reach) {
    let best = null, least = reach;
    for (const point of points) {
      const [x, y] = this.view.to(point.x, point.y), far = Math.hypot(x - px, y - py);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }
}
