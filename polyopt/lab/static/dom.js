// Elements of the page, and numbers as people read them.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element of HTML; attributes that begin with "on" are listeners, and "text" is its text. */
export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const s = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** Set attributes that changed; null takes one away. */
export function put(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

/** Another text, where it is another. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A number in a few digits, with a minus as it is printed; a dash where there is none. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  text = text.replace(/^-/, "−").replace(/\.?0+e/, "e");
  const [mantissa, power] = text.split("e");
  return power === undefined ? text : `${mantissa}·10${raised(power)}`;
}

/** A number of which next to nothing is said to be that. */
export const near = (value) => (value && Math.abs(value) < 1e-9 ? "≈ 0" : number(value));

const raised = (power) => [...String(power)].map((c) => SUPERSCRIPT[c] ?? "").join("");
const SUPERSCRIPT = { "-": "⁻", "+": "", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** Steps of an axis: 1, 2 or 5 times a power of ten, some `count` of them within. */
export function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw) ?? raw;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(k === 0 ? 0 : k * step);
  return found;
}

/**
 * The marks of an axis, with texts that are short: what they have in common is said once.
 *
 * @returns  {marks: pairs of a value and its text, note: such as "×10⁵" or "900000 +"; empty where there is none}
 */
export function marks(low, high, count) {
  const values = ticks(low, high, count), step = values.length > 1 ? values[1] - values[0] : high - low;
  const far = Math.max(...values.map(Math.abs)), base = far / step > 2000 ? values[0] : 0;
  const size = Math.max(...values.map((value) => Math.abs(value - base)), step), power = Math.floor(Math.log10(size) + 1e-9);
  const scale = power >= 4 || power <= -3 ? power : 0;
  const digits = Math.min(4, Math.max(0, Math.ceil(scale - Math.log10(step) - 1e-9)));
  const text = (value) => String(Number(((value - base) / 10 ** scale).toFixed(digits))).replace("-", "−");
  const note = [base ? `${number(base, 10)} +` : "", scale ? `×10${raised(scale)}` : ""];
  return { marks: values.map((value) => [value, text(value)]), note: note.filter(Boolean).join(" ") };
}

/** Whether movement is unwelcome. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
