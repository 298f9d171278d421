// The way of a solver, step by step beside the optimum: play, pause, and a slider over the steps.

import { h, number, put, s, say, still, ticks } from "./dom.js";

const CHART = { w: 320, h: 120, left: 44, right: 6, top: 8, bottom: 20 };
const PACE = { least: 140, most: 900, whole: 8000 };  // milliseconds: of a step, and of all steps
const VERBS = { descent: "the descent", alternation: "the alternation", "cross-entropy": "the cross-entropy search", run: "the run" };

/** What is seen on the plane while the steps are shown. */
function signs({ steps, optimum }) {
  const has = (name) => steps.some((step) => step[name]);
  return [
    has("faces") && optimum?.faces?.length ? "Dashed on the plane: what the exact solver ends with." : "",
    has("assignment") ? "The rim of a sample has the colour of the face that answers for it." : "",
    has("probabilities") ? "The arc around a sample is the probability that it is drawn as a centre." : "",
  ];
}

export class Player {
  constructor(lab) {
    this.lab = lab;
    this.trace = null;
    this.at = this.turn = 0;  // the turn of runs; what is told of an earlier one comes too late
    this.begin = h("button", { type: "button", "data-name": "trace", text: "Step by step", onclick: () => this.fetch() });
    this.back = h("button", { type: "button", "aria-label": "A step back", text: "‹", onclick: () => this.step(-1) });
    this.on = h("button", { type: "button", "aria-label": "A step on", text: "›", onclick: () => this.step(1) });
    this.toggle = h("button", { type: "button", "data-name": "play", text: "Play", onclick: () => (this.timer ? this.pause() : this.play()) });
    this.leave = h("button", { type: "button", "data-name": "leave", text: "Close", onclick: () => this.close() });
    this.slide = h("input", { type: "range", min: 0, max: 0, value: 0, "data-name": "scrub", "aria-label": "Step", oninput: () => {
      this.pause();
      this.show(Number(this.slide.value));
    } });
    this.words = h("p", { class: "step", "data-name": "step", role: "status" });
    this.sentence = h("p", { class: "quiet" });
    this.chart = s("svg", { class: "chart", viewBox: `0 0 ${CHART.w} ${CHART.h}`, role: "img" });
    this.stage = h("div", { class: "stage", hidden: true },
      h("div", { class: "buttons" }, this.back, this.toggle, this.on, this.slide, this.leave), this.words, this.chart, this.sentence);
    this.element = h("section", { class: "player", "aria-label": "The solver's way" },
      this.first = h("div", { class: "buttons" }, this.begin, this.hint = h("span", { class: "quiet" })), this.stage);
  }

  /** What can be shown of this machine. */
  update() {
    const { entry } = this.lab;
    say(this.hint, entry.shape === "polytope" ? "Watch faces and assignments change, beside what the exact solver ends with."
      : "Watch the solver come down to the optimum.");
  }

  async fetch() {
    this.begin.disabled = true;
    const { turn } = this;
    const answer = await this.lab.long("trace", { state: this.lab.model.wire() });
    this.begin.disabled = false;
    if (answer.kind !== "trace" || turn !== this.turn) return;
    if (answer.steps.length === 0) return this.lab.complain(answer.sentence || "The run kept no steps.");
    this.trace = answer;
    put(this.slide, { max: answer.steps.length - 1 });
    this.stage.hidden = false;
    this.first.hidden = true;
    say(this.sentence, [answer.sentence, ...signs(answer)].filter(Boolean).join(" "));
    this.draw();
    this.show(0);
    this.toggle.focus();
    if (!still()) this.play();
  }

  close() {
    this.turn += 1;
    this.pause();
    if (this.trace === null) return;
    this.trace = null;
    this.stage.hidden = true;
    this.first.hidden = false;
    this.lab.stepped(null);
  }

  play() {
    if (this.at >= this.trace.steps.length - 1) this.show(0);
    say(this.toggle, "Pause");
    const pace = Math.min(Math.max(PACE.whole / this.trace.steps.length, PACE.least), PACE.most);
    this.timer = setInterval(() => (this.at < this.trace.steps.length - 1 ? this.show(this.at + 1) : this.pause()), pace);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    say(this.toggle, "Play");
  }

  step(by) {
    this.pause();
    this.show(Math.min(Math.max(this.at + by, 0), this.trace.steps.length - 1));
  }

  show(at) {
    this.at = at;
    const { steps, unit, optimum } = this.trace, step = steps[at];
    this.slide.value = at;
    this.slide.setAttribute("aria-valuetext", `${unit} ${step.step}`);
    const told = [`${unit} ${step.step} of ${steps.at(-1).step}`];
    if (step.objective !== null) told.push(`value ${number(step.objective, 5)}`);
    if (step.bound !== null && step.bound !== undefined) told.push(`bound ${number(step.bound, 5)}`);
    if (optimum) told.push(`the exact solver ends at ${number(optimum.objective, 5)}`);
    if (step.changed !== null && step.changed !== undefined) told.push(`${step.changed} changed their face`);
    say(this.words, `${told.join("; ")}.`);
    if (this.cursor) {
      const x = this.x(at);
      put(this.cursor, { d: `M${x} ${CHART.top}V${CHART.h - CHART.bottom}` });
    }
    this.lab.stepped(step, this.trace);
  }

  x(at) {
    const { w, left, right } = CHART;
    return left + (at / Math.max(this.trace.steps.length - 1, 1)) * (w - left - right);
  }

  /** Value and bound over the steps. */
  draw() {
    const { steps, optimum, what } = this.trace, { w, h: high, left, right, top, bottom } = CHART;
    const known = (name) => steps.map((step) => step[name] ?? null);
    const all = [...known("objective"), ...known("bound"), optimum?.objective ?? null].filter((value) => value !== null);
    this.cursor = null;
    this.chart.replaceChildren();
    this.chart.toggleAttribute("hidden", steps.length < 2 || all.length === 0);
    if (this.chart.hasAttribute("hidden")) return;
    let low = Math.min(...all), most = Math.max(...all);
    // The first steps may be so bad that nothing of the others is seen: what is worse than most is above the chart.
    const sorted = [...all].sort((a, b) => a - b), usual = sorted[Math.floor(0.9 * (sorted.length - 1))];
    if (most - low > 4 * (usual - low) && usual > low) most = low + 2 * (usual - low);
    const flat = 1e-7 * Math.max(Math.abs(low), Math.abs(most));
    if (most - low <= flat) [low, most] = [low - (flat || 1), most + (flat || 1)];
    const y = (value) => Math.max(top, top + ((most - value) / (most - low)) * (high - top - bottom));
    const path = (values) => values.reduce((text, value, i) => (value === null ? text
      : `${text}${text ? "L" : "M"}${this.x(i).toFixed(1)} ${y(Math.max(value, low)).toFixed(1)}`), "");
    const guides = ticks(low, most, 3), step = guides.length > 1 ? guides[1] - guides[0] : most - low;
    const digits = Math.min(6, Math.max(3, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(most)) / step)) + 1));
    for (const value of guides) {
      this.chart.append(s("path", { class: "guide", d: `M${left} ${y(value)}H${w - right}` }),
        s("text", { x: left - 5, y: y(value) + 3.5, "text-anchor": "end", text: number(value, digits) }));
    }
    if (optimum) this.chart.append(s("path", { class: "optimum", d: `M${left} ${y(optimum.objective)}H${w - right}` }));
    this.chart.append(s("path", { class: "bound", d: path(known("bound")) }), s("path", { class: "value", d: path(known("objective")) }),
      s("text", { x: w - right, y: high - 5, "text-anchor": "end", text: `${this.trace.unit}s` }),
      s("text", { x: left, y: high - 5, text: optimum ? `value, and ${optimum.certificate?.claim === "optimal" ? "the optimum" : "the exact solver's end"} dashed` : "value, and the bound below it" }));
    this.cursor = s("path", { class: "cursor" });
    this.chart.append(this.cursor);
    put(this.chart, { "aria-label": `Value and bound over ${VERBS[what] ?? "the run"}` });
  }
}
