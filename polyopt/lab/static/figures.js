// How far from the optimum: primal value, dual bound, gap and claim, as numbers and as bars that close in.

import { h, number, put, s, say } from "./dom.js";

const CLAIMS = {
  optimal: ["optimal", "green"], suboptimal_by: ["proven up to the gap", "yellow"], stationary: ["stationary", "cyan"],
  conditions: ["conditions hold", "cyan"], solvers_word: ["the solver's word", "yellow"], infeasible: ["infeasible", "red"],
  none: ["nothing proven", "yellow"], contradiction: ["contradiction", "red"],
};
const SLOW = 1;  // seconds of a solve after which the numbers of the picture before are taken away
const LEAST = -9;  // the power of ten of the relative distance at which the bars meet

/** How wide open a bar stands, from 0 to 1, for a relative distance; on a scale of powers of ten. */
const opened = (relative) => (relative > 0 ? Math.min(1, Math.max(0, 1 - Math.log10(relative) / LEAST)) : 0);

/** A claim in a word or two, and its colour; of a held assignment it is a claim within that alone. */
export function claimOf({ claim, program }, held = "optimal for this assignment") {
  const [word, colour] = CLAIMS[claim] ?? [claim, "yellow"];
  return [claim === "optimal" && program.endsWith("that is held") ? held : word, colour];
}

export class Figures {
  constructor(lab) {
    this.lab = lab;
    const row = (name, label) => {
      const value = h("output", { "data-name": name, text: "–" });
      return [value, h("div", { class: "figure" }, h("span", { text: label }), value)];
    };
    const [primal, first] = row("primal", "primal value"), [dual, second] = row("dual", "dual bound");
    const [gap, third] = row("gap", "gap");
    Object.assign(this, { primal, dual, gap });
    this.claim = h("span", { class: "badge", "data-name": "claim", text: "–" });
    this.sentence = h("p", { class: "sentence", "data-name": "sentence" });
    this.scope = h("p", { class: "quiet", "data-name": "scope" });
    this.low = s("rect", { class: "low", x: 0, y: 3, height: 14 });
    this.high = s("rect", { class: "high", y: 3, height: 14 });
    this.bars = s("svg", { class: "bars", viewBox: "0 0 200 20", preserveAspectRatio: "none", role: "img", "aria-label": "no bound yet" },
      this.low, this.high, s("path", { class: "middle", d: "M100 0V20" }));
    this.scale = h("p", { class: "scale", "aria-hidden": "true" },
      ...["bound below", "10⁻³", "10⁻⁶", "10⁻⁹", "10⁻⁶", "10⁻³", "value above"].map((text) => h("span", { text })));
    this.run = h("p", { class: "quiet", "data-name": "status" });
    this.meter = h("progress", { max: 1, "aria-label": "Progress of the solver" });
    this.told = h("span", { class: "told" });
    this.stop = h("button", { type: "button", class: "stop", text: "Stop", onclick: () => lab.stop() });
    this.progress = h("div", { class: "progress", hidden: true }, this.meter, this.told, this.stop);
    this.warnings = h("ul", { class: "warnings" });
    this.rest = h("details", { class: "residuals" }, h("summary", { text: "Conditions, and how well they hold" }),
      this.residuals = h("div", { class: "scroll", tabindex: 0 }));
    this.element = h("section", { class: "figures", "aria-label": "How far from the optimum" },
      h("div", { class: "claim" }, this.claim, this.sentence), first, second, third, this.bars, this.scale,
      this.progress, this.scope, this.warnings, this.run, this.rest);
  }

  /** The numbers of a picture's certificate, and none of our own; null where there is no picture. */
  show(picture) {
    const certificate = picture?.certificate, [word, colour] = certificate ? claimOf(certificate) : ["–", "none"];
    this.certificate = certificate ?? null;
    this.lab.element.classList.remove("waiting");
    put(this.claim, { class: `badge ${colour}` });
    say(this.claim, word);
    say(this.sentence, certificate?.sentence ?? "");
    const named = !/^\w+\.\w+$/.test(certificate?.scope ?? "");  // some have but a name in the code
    say(this.scope, (named ? certificate?.scope : picture.title) ?? "");
    say(this.primal, number(certificate?.primal_value, 6));
    say(this.dual, number(certificate?.dual_value, 6));
    const relative = certificate?.relative_gap;
    say(this.gap, certificate?.gap === null || !certificate ? "–"
      : `${number(certificate.gap, 3)}${relative === null ? "" : ` (relative ${number(relative, 2)})`}`);
    this.spread(relative ?? null, relative ?? null, certificate ? "no bound" : "no values yet");
    const { solver, iterations, seconds } = picture ?? {};
    const took = seconds ? `; ${number(1000 * seconds, 2)} ms in all` : "";
    say(this.run, picture ? `${picture.status} Solver: ${solver}, iterations: ${iterations ?? "–"}${took}.` : "");
    this.warnings.replaceChildren(...(picture?.warnings ?? []).map((text) => h("li", { text })));
    this.table(certificate);
  }

  /** A solve takes its time: what is drawn is of before, and its numbers are of no use any more. */
  wait() {
    this.lab.element.classList.add("waiting");
    put(this.claim, { class: "badge" });
    say(this.claim, "solving…");
    say(this.sentence, "Until there is an answer, what is drawn is of before.");
    for (const each of [this.primal, this.dual, this.gap]) say(each, "–");
    for (const each of [this.scope, this.run]) say(each, "");
    this.warnings.replaceChildren();
    this.rest.hidden = true;
    this.spread(null, null, "no values yet");
  }

  /** The bars: how far the bound is below, and the value above, relatively; null where that is not known. */
  spread(below, above, otherwise = "no bound") {
    const left = below === null ? 0 : 100 * (1 - opened(below)), right = above === null ? 0 : 100 * (1 - opened(above));
    put(this.low, { width: left.toFixed(2) });
    put(this.high, { x: (200 - right).toFixed(2), width: right.toFixed(2) });
    const told = below === null && above === null ? otherwise
      : `bound ${below === null ? "unknown" : `${number(below, 2)} below`}, value ${above === null ? "unknown" : `${number(above, 2)} above`}, relatively`;
    put(this.bars, { "aria-label": told });
  }

  table(certificate) {
    this.rest.hidden = !certificate?.residuals?.length;
    if (this.rest.hidden) return;
    const head = ["condition", "row", "relative", "worst at"].map((text) => h("th", { scope: "col", class: "text", text }));
    const rows = certificate.residuals.map((each) => h("tr", {}, h("td", { class: "text", text: each.condition }),
      h("td", { class: "text", text: each.row }), h("td", { text: number(each.relative, 2) }), h("td", { text: each.worst ?? "–" })));
    this.residuals.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
  }

  /** While something long runs; null when it is over. */
  running(message) {
    this.progress.hidden = message === null;
    if (message === null) return;
    if (this.lab.flight && message.seconds >= SLOW && !this.lab.element.classList.contains("waiting")) this.wait();
    if (message.share === null || message.share === undefined) this.meter.removeAttribute("value");
    else this.meter.value = message.share;
    const known = (name) => message[name] !== null && message[name] !== undefined;
    const values = known("objective") ? `value ${number(message.objective)}` : "", bound = known("bound") ? `bound ${number(message.bound)}` : "";
    say(this.told, [message.text, values, bound, `${number(message.seconds, 2)} s`].filter(Boolean).join("; "));
    if (values && bound) {
      const apart = (message.objective - message.bound) / Math.max(Math.abs(message.objective), 1e-300);
      this.spread(apart, apart);
    }
  }
}
