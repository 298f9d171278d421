// Shapes in the plane: level lines of a function known on a grid, by marching squares; polygons and lines in a box.

// The two ends of each piece of a line within a cell: 0 below, 1 right, 2 above, 3 left; by which corners are high.
const PIECES = [
  [], [[3, 0]], [[0, 1]], [[3, 1]], [[1, 2]], null, [[0, 2]], [[3, 2]],
  [[2, 3]], [[2, 0]], null, [[2, 1]], [[1, 3]], [[1, 0]], [[0, 3]], [],
];

/**
 * A level line as the text of an SVG path.
 *
 * @param values  Rows from the lowest y up, each from the lowest x, one after the other.
 * @param nx, ny  Columns and rows, at least two each.
 * @param level   The value along the line.
 * @param place   From column and row, which may be broken numbers, to [x, y] on the picture.
 */
export function contour(values, nx, ny, level, place) {
  const next = new Map();  // from the end of one piece to the other end, and to where it lies
  const points = new Map();
  const along = (j, i) => 2 * (j * nx + i), up = (j, i) => 2 * (j * nx + i) + 1;
  const share = (a, b) => (a === b ? 0.5 : (level - a) / (b - a));
  const join = (a, b) => {
    if (!next.has(a)) next.set(a, []);
    if (!next.has(b)) next.set(b, []);
    next.get(a).push(b);
    next.get(b).push(a);
  };
  for (let j = 0; j + 1 < ny; j++) {
    for (let i = 0; i + 1 < nx; i++) {
      const at = j * nx + i;
      const a = values[at], b = values[at + 1], c = values[at + nx + 1], d = values[at + nx];
      const kind = (a > level) + 2 * (b > level) + 4 * (c > level) + 8 * (d > level);
      if (kind === 0 || kind === 15 || !Number.isFinite(a + b + c + d)) continue;
      const high = (a + b + c + d) / 4 > level;
      let pieces = PIECES[kind];
      if (kind === 5) pieces = high ? [[3, 2], [0, 1]] : [[3, 0], [1, 2]];
      if (kind === 10) pieces = high ? [[3, 0], [1, 2]] : [[0, 1], [2, 3]];
      const name = [along(j, i), up(j, i + 1), along(j + 1, i), up(j, i)];
      const where = [
        () => [i + share(a, b), j], () => [i + 1, j + share(b, c)],
        () => [i + share(d, c), j + 1], () => [i, j + share(a, d)],
      ];
      for (const [one, other] of pieces) {
        for (const side of [one, other]) {
          if (!points.has(name[side])) points.set(name[side], place(...where[side]()));
        }
        join(name[one], name[other]);
      }
    }
  }
  return strung(next, points);
}

// Pieces one after the other, as long as they hang together: open lines from their ends, then closed ones.
function strung(next, points) {
  const done = new Set(), parts = [];
  const text = (key) => points.get(key).map((value) => value.toFixed(1)).join(",");
  const follow = (start) => {
    const line = [text(start)];
    let here = start;
    done.add(start);
    for (;;) {
      const on = next.get(here).find((each) => !done.has(each));
      if (on === undefined) break;
      done.add(on);
      line.push(text(on));
      here = on;
    }
    const closed = line.length > 2 && next.get(here).includes(start);
    if (line.length > 1) parts.push(`M${line.join("L")}${closed ? "Z" : ""}`);
  };
  for (const [key, others] of next) if (others.length === 1 && !done.has(key)) follow(key);
  for (const key of next.keys()) if (!done.has(key)) follow(key);
  return parts.join("");
}

/**
 * The part of a box in which no face's w.x + b is above a level, as corners with the face whose edge begins there.
 *
 * @returns  Pairs [[x, y], k]; k is -1 for an edge of the box. Empty where nothing is left.
 */
export function cut([x0, x1, y0, y1], faces, level = 0) {
  let corners = [[[x0, y0], -1], [[x1, y0], -1], [[x1, y1], -1], [[x0, y1], -1]];
  faces.forEach(({ w, b }, k) => {
    const height = ([x, y]) => w[0] * x + w[1] * y + b - level, kept = [];
    corners.forEach(([here, edge], i) => {
      const [there] = corners[(i + 1) % corners.length], a = height(here), c = height(there);
      const t = a / (a - c), cross = [here[0] + t * (there[0] - here[0]), here[1] + t * (there[1] - here[1])];
      if (a <= 0) kept.push([here, edge]);
      if (a <= 0 && c > 0) kept.push([cross, k]);
      else if (a > 0 && c <= 0) kept.push([cross, edge]);
    });
    corners = kept;
  });
  return corners;
}

/** The two ends of the line w.x + b = 0 within a box; null where it passes by. */
export function across([x0, x1, y0, y1], { w, b }) {
  const rim = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]], ends = [];
  const heights = rim.map(([x, y]) => w[0] * x + w[1] * y + b);
  rim.forEach((here, i) => {
    const there = rim[(i + 1) % 4], a = heights[i], c = heights[(i + 1) % 4];
    if ((a <= 0) === (c <= 0)) return;
    const t = a / (a - c);
    ends.push([here[0] + t * (there[0] - here[0]), here[1] + t * (there[1] - here[1])]);
  });
  return ends.length === 2 ? ends : null;
}
