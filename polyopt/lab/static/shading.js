// The colours under the lines: decision values by class, or the cells of a polytope's faces.

import { floats } from "./model.js";

const FACE_COLOURS = ["teal", "purple", "gold", "sky", "muted", "wine", "indigo", "olive"];
export const colourOfFace = (k) => FACE_COLOURS[k % FACE_COLOURS.length];

export class Palette {
  constructor(root) {
    this.root = root;
    this.known = new Map();
  }

  forget() { this.known.clear(); }

  /** A colour of the style sheet as three numbers from 0 to 255. */
  rgb(name) {
    if (!this.known.has(name)) {
      const probe = this.root.querySelector(".probe");
      probe.style.color = `var(--${name})`;
      this.known.set(name, getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number));
    }
    return this.known.get(name);
  }
}

/** Decision values at every pixel, from those at the nodes: a function (column, row) from the upper left. */
function smooth(grid, width, height) {
  const { nx, ny, numbers } = grid, columns = [], stretch = (nx - 1) / Math.max(width - 1, 1);
  for (let x = 0; x < width; x++) {
    const i = Math.min(Math.floor(x * stretch), nx - 2);
    columns.push([i, x * stretch - i]);
  }
  return (x, y) => {
    const v = ((height - 1 - y) / Math.max(height - 1, 1)) * (ny - 1), j = Math.min(Math.floor(v), ny - 2), t = v - j;
    const [i, s] = columns[x], at = j * nx + i;
    const low = numbers[at] + s * (numbers[at + 1] - numbers[at]);
    const high = numbers[at + nx] + s * (numbers[at + nx + 1] - numbers[at + nx]);
    return low + t * (high - low);
  };
}

/** The face with the largest score at every pixel. */
function largest(faces, [x0, x1, y0, y1], width, height) {
  const w = faces.map((face) => face.w), b = faces.map((face) => face.b);
  return (x, y) => {
    const px = x0 + ((x + 0.5) / width) * (x1 - x0), py = y1 - ((y + 0.5) / height) * (y1 - y0);
    let best = 0, most = -Infinity;
    for (let k = 0; k < w.length; k++) {
      const score = w[k][0] * px + w[k][1] * py + b[k];
      if (score > most) [best, most] = [k, score];
    }
    return best;
  };
}

/**
 * Colour a canvas.
 *
 * @param picture  Of the protocol, or a frame of a path: `grid`, `view`, `levels`, `faces`, `inside`.
 * @param scale    Pixels of the canvas per pixel of the page.
 */
export function shade(canvas, picture, palette, width, height, scale) {
  const grid = picture.grid;
  const w = Math.max(2, Math.round(width * scale)), h = Math.max(2, Math.round(height * scale));
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  if (!grid) return context.clearRect(0, 0, w, h);
  grid.numbers ??= floats(grid.values);
  const image = context.createImageData(w, h), data = image.data, value = smooth(grid, w, h);
  const far = Math.max(1, ...picture.levels.map((level) => Math.abs(level.value)));
  const colours = { 1: palette.rgb("positive"), "-1": palette.rgb("negative") };
  const faces = picture.faces ?? [], inside = picture.inside;
  const owner = faces.length > 1 && grid.cells ? largest(faces, picture.view, w, h) : null;
  const owners = owner ? faces.map((_, k) => palette.rgb(colourOfFace(k))) : [];
  for (let y = 0, at = 0; y < h; y++) {
    for (let x = 0; x < w; x++, at += 4) {
      const f = value(x, y), side = f > 0 ? 1 : -1;
      const strength = Math.min(Math.abs(f), far) / far;
      let colour = colours[side], alpha = 20 + 42 * strength;
      if (owner && side !== inside) [colour, alpha] = [owners[owner(x, y)], 34];
      data[at] = colour[0];
      data[at + 1] = colour[1];
      data[at + 2] = colour[2];
      data[at + 3] = alpha;
    }
  }
  context.putImageData(image, 0, 0);
}
