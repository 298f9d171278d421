// What the signs on the plane mean, for this picture.

import { h, s } from "./dom.js";
import { colourOfFace } from "./shading.js";

const icon = (...children) => s("svg", { class: "sign", viewBox: "-14 -10 28 20", width: 28, height: 20, "aria-hidden": "true" }, children);
const line = (kind) => icon(s("path", { class: kind, d: "M-13 0H13" }));
const item = (sign, text) => h("li", {}, sign, h("span", { text }));

/** The entries of the legend: classes, lines, multipliers' rings, faces. */
export function legend(picture, classes) {
  const named = (label, text) => {
    const own = classes?.[label > 0 ? 1 : 0];
    return own === undefined || Number(own) === label ? `class ${text}` : `${text}: ${own}`;
  };
  const items = [
    item(icon(s("circle", { class: "positive", r: 5 })), named(1, "+1")),
    item(icon(s("path", { class: "negative", d: "M0 -6.4L5.9 4.4L-5.9 4.4Z" })), named(-1, "−1")),
  ];
  if (!picture) return items;
  const seen = new Set();
  for (const { name, value } of picture.levels) {
    if (seen.has(name)) continue;
    seen.add(name);
    const size = Number(Math.abs(value).toPrecision(3));
    items.push(item(line(`level ${name}`), value === 0 ? `${name}: f = 0` : `${name}: f = ±${size}`));
  }
  pulling(picture).forEach((family, i) => {
    items.push(item(icon(s("circle", { class: `ring family${i}`, r: 7 })), `multiplier of ${family.row.replaceAll("_", " ")}`));
  });
  if (pulling(picture).some((family) => family.upper !== null)) {
    items.push(item(icon(s("circle", { class: "ring family0 capped", r: 7 })), "the same at its upper limit"));
  }
  for (const { k, answers } of picture.faces) {
    if (answers === 0) continue;
    items.push(item(line(`face rim ${colourOfFace(k)}`), `face ${k}, which answers for ${answers}`));
  }
  return items;
}

/** The families whose multipliers pull at the solution. */
export const pulling = (picture) => picture.families.filter((family) => family.pulls);

/** For each sample of a picture which family its largest pulling multiplier is of, and whether that is at its cap. */
export function strongest(picture) {
  const n = picture.samples.f.length, family = new Array(n).fill(0), most = new Array(n).fill(0), capped = new Array(n).fill(false);
  pulling(picture).forEach(({ sample, multiplier, upper }, which) => {
    sample.forEach((i, at) => {
      if (i < 0 || !(multiplier[at] > most[i])) return;
      [most[i], family[i]] = [multiplier[at], which];
      capped[i] = upper !== null && multiplier[at] >= upper * (1 - 1e-6);
    });
  });
  return { family, capped };
}
