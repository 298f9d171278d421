// What a person has made: samples, machine and settings; its history; and the short text that a link holds.

export const HELD = "fixed";  // the method that holds who answers for each sample
const KEPT = 200;  // steps back

let lastPoint = 0;

/** A sample; its id stays the same while others come and go. */
export const sample = (x, y, label) => ({ id: ++lastPoint, x, y, label });

export class Model {
  constructor() {
    this.points = [];
    this.machine = this.method = "";
    this.settings = {};
    this.seed = 0;
    this.axes = this.classes = null;
    this.past = [];
    this.future = [];
    this.tag = null;
  }

  /** Take over a State of the protocol. */
  take(state) {
    this.points = state.points.map(([x, y, label], i) => Object.assign(sample(x, y, label), { face: state.assignment?.[i] ?? -1 }));
    this.machine = state.machine;
    this.method = state.method;
    this.settings = { ...state.settings };
    this.seed = state.seed ?? 0;
  }

  /** The State of the protocol. */
  wire() {
    return {
      v: 1, points: this.points.map((p) => [p.x, p.y, p.label]), machine: this.machine, method: this.method,
      settings: { ...this.settings }, seed: this.seed,
      ...(this.method === HELD ? { assignment: this.points.map((p) => p.face ?? -1) } : {}),
    };
  }

  copy() {
    const { machine, method, seed, axes, classes } = this;
    return { points: this.points.map((p) => ({ ...p })), machine, method, settings: { ...this.settings }, seed, axes, classes };
  }

  /** Before a change: what is now can be had back. Changes of one tag, such as those of one drag, are one. */
  mark(tag = null) {
    if (tag !== null && tag === this.tag) return;
    this.tag = tag;
    this.past.push(this.copy());
    if (this.past.length > KEPT) this.past.shift();
    this.future = [];
  }

  undo() { return this.go(this.past, this.future); }

  redo() { return this.go(this.future, this.past); }

  go(from, to) {
    if (from.length === 0) return false;
    to.push(this.copy());
    Object.assign(this, from.pop());
    this.tag = null;
    return true;
  }
}

const MOST_BYTES = 1 << 20;  // of what a link may hold: a short one can be made to hold billions

async function squeezed(bytes, stream) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader(), parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    size += value.length;
    parts.push(value);
    if (size > MOST_BYTES) {
      await reader.cancel();
      throw new RangeError("too long");
    }
  }
}

/** A state as a short text of letters that an address may hold. */
export async function encoded(state) {
  const { points, ...rest } = state;
  const text = JSON.stringify({ ...rest, p: points.flat() });
  const bytes = await squeezed(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The state of such a text; null where it is none. The engine looks at what is in it. */
export async function decoded(text) {
  try {
    const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const { p, ...rest } = JSON.parse(new TextDecoder().decode(await squeezed(bytes, new DecompressionStream("deflate-raw"))));
    const points = [];
    for (let i = 0; i + 2 < p.length; i += 3) points.push([p[i], p[i + 1], p[i + 2]]);
    const right = points.every(([x, y, label]) => Number.isFinite(x) && Number.isFinite(y) && Math.abs(label) === 1);
    return right && (rest.v ?? 1) === 1 && typeof rest.machine === "string" && typeof rest.method === "string" ? { ...rest, points, settings: { ...rest.settings } } : null;
  } catch {
    return null;
  }
}

/** Numbers of the protocol's base64. */
export function floats(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
