// What is seen of the plane, and where its numbers lie in pixels.

export const FARTHEST = 1e6;  // of a sample, either way
const EDGE = { left: 38, right: 10, top: 10, bottom: 26 };  // pixels around the plane, for the axes

const CLOSEST = 1e-8;  // width of what is seen, as a share of its numbers

export class View {
  constructor() {
    this.box = [-3, 3, -3, 3];
    this.width = this.height = 0;
  }

  /** The rectangle in pixels: left, top, width, height. */
  get inner() {
    const w = Math.max(this.width - EDGE.left - EDGE.right, 1), h = Math.max(this.height - EDGE.top - EDGE.bottom, 1);
    return { x: EDGE.left, y: EDGE.top, w, h };
  }

  /** From the plane to pixels. */
  to(x, y) {
    const [x0, x1, y0, y1] = this.box, { w, h } = this.inner;
    return [EDGE.left + ((x - x0) / (x1 - x0)) * w, EDGE.top + ((y1 - y) / (y1 - y0)) * h];
  }

  /** From pixels to the plane; beyond the rim is the rim. */
  from(px, py) {
    const [x0, x1, y0, y1] = this.box, { w, h } = this.inner;
    const u = Math.min(Math.max((px - EDGE.left) / w, 0), 1), v = Math.min(Math.max((py - EDGE.top) / h, 0), 1);
    return [x0 + u * (x1 - x0), y1 - v * (y1 - y0)];
  }

  /** How much of the plane a pixel is, across and up. */
  get pixel() {
    const [x0, x1, y0, y1] = this.box, { w, h } = this.inner;
    return [(x1 - x0) / w, (y1 - y0) / h];
  }

  /** A place by hand, in as many digits as the picture shows and one more. */
  tidy(x, y) {
    const round = (value, unit) => {
      const fine = 10 ** (Math.floor(Math.log10(unit)) - 1);
      return Number((Math.round(Math.min(Math.max(value, -FARTHEST), FARTHEST) / fine) * fine).toPrecision(13));
    };
    const [ux, uy] = this.pixel;
    return [round(x, ux), round(y, uy)];
  }

  /** The box around points with some air; a unit is as long across as up, unless the points are far from square. */
  fit(points) {
    if (points.length === 0) return void (this.box = [-3, 3, -3, 3]);
    const range = (values) => {
      const low = Math.min(...values), high = Math.max(...values);
      const air = high > low ? Math.max(0.14 * (high - low), CLOSEST * Math.max(Math.abs(low), Math.abs(high))) : 1;
      return [low - air, high + air];
    };
    let [x0, x1] = range(points.map((p) => p.x)), [y0, y1] = range(points.map((p) => p.y));
    const { w, h } = this.inner, unit = Math.max((x1 - x0) / w, (y1 - y0) / h);
    if ((x1 - x0) / w < 4 * ((y1 - y0) / h) && (y1 - y0) / h < 4 * ((x1 - x0) / w)) {
      const dx = (unit * w - (x1 - x0)) / 2, dy = (unit * h - (y1 - y0)) / 2;
      [x0, x1, y0, y1] = [x0 - dx, x1 + dx, y0 - dy, y1 + dy];
    }
    this.box = [x0, x1, y0, y1];
  }

  /** Closer by a factor, about the middle or a place in the plane. */
  zoom(factor, place) {
    const [x0, x1, y0, y1] = this.box, [x, y] = place ?? [(x0 + x1) / 2, (y0 + y1) / 2];
    const box = [x + (x0 - x) / factor, x + (x1 - x) / factor, y + (y0 - y) / factor, y + (y1 - y) / factor];
    const far = Math.max(...box.map(Math.abs)), wide = Math.min(box[1] - box[0], box[3] - box[2]);
    if (far < 10 * FARTHEST && wide > CLOSEST * far) this.box = box;
  }
}
