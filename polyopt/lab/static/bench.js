// The lab's bench: what a person does changes the model, and the newest model is solved, one request at a time.

import { number, put, say } from "./dom.js";
import { legend, strongest } from "./legend.js";
import { HELD, Model } from "./model.js";
import { FARTHEST } from "./view.js";

const NODES = { drag: 60, rest: 96 };  // of the grid, across
const PATIENCE = 500;  // milliseconds after which a newer model breaks the solve of an older one off
const NEED_FREE = new Set(["n_faces", "inside_label"]);  // settings that no held assignment outlives
const PAUSE = 350;  // milliseconds without a key after which a move is over

export class Bench {
  constructor(desk, options) {
    Object.assign(this, { desk, options, model: new Model(), picture: null, entry: null, hello: null, flight: null });
    this.timings = [];
    this.open = this.dirty = this.settled = false;
    this.chosen = this.step = this.trace = null;
    this.longs = 0;  // requests that may take long and are under way
  }

  // --- changes ---------------------------------------------------------------------------------------------------

  /** The model is another; `settled` is false while it still moves. */
  change(settled = true, stamp = performance.now()) {
    Object.assign(this, { dirty: true, settled, stamp });
    if (settled) {
      this.model.tag = null;  // what comes now is another change
      if (this.hello) this.options.changed?.(this.model.wire());
    }
    this.drawSamples();
    this.controls.update();
    this.pump();
  }

  /** Before a change: what is now can be had back. */
  mark(tag = null) {
    this.model.mark(tag);
    this.leave();
  }

  /** Runs of an earlier model are shown no more, nor waited for. */
  leave() {
    this.player.close();
    if (this.longs > 0 && !this.leaving) this.desk.ask("stop");
    this.leaving = this.longs > 0;
  }

  changeSoon() {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.change(), PAUSE);
  }

  /** Samples were changed by hand: they are no longer those of a set, and no step of a run is theirs. */
  touched(tag) {
    this.mark(tag);
    this.controls.drawn();
  }

  add(point, tag, stamp) {
    const most = this.hello.limits.points;
    if (this.model.points.length >= most) return void this.complain(`There may be ${most} samples at most.`);
    this.touched(tag);
    this.answerFor(point);
    this.model.points.push(point);
    this.change(false, stamp);
    return true;
  }

  moveTo(point, [x, y], tag, stamp) {
    this.touched(tag);
    [point.x, point.y] = this.view.tidy(x, y);
    this.change(false, stamp);
  }

  erase(point) {
    this.touched();
    this.model.points = this.model.points.filter((each) => each !== point);
    if (this.chosen === point) this.point(null);
    this.change();
  }

  flip(point) {
    this.touched();
    point.label = -point.label;
    this.answerFor(point);
    this.change();
    this.say(`Sample ${this.model.points.indexOf(point)} is of class ${point.label > 0 ? "+1" : "−1"} now.`);
  }

  clear() {
    this.touched();
    this.model.points = [];
    this.point(null);
    this.change();
  }

  set(name, value, tag = null) {
    this.mark(tag);
    this.model.settings[name] = value;
    if (this.held && NEED_FREE.has(name)) this.release();
    this.change(tag === null);
  }

  choose(machine) {
    this.mark();
    const own = this.model.settings, entry = this.hello.machines.find((each) => each.name === machine);
    this.model.machine = machine;
    this.model.method = entry.methods[0].name;
    this.model.settings = Object.fromEntries(entry.settings.filter(({ name }) => own[name] !== undefined && own[name] !== null)
      .filter((setting) => fits(setting, own[setting.name])).map(({ name }) => [name, own[name]]));
    this.renewed();
  }

  chooseMethod(method) {
    if (method === HELD && !this.picture) {
      this.controls.update();
      return this.complain("There is no picture yet whose assignment could be held.");
    }
    this.mark();
    this.model.method = method;
    if (this.held) this.hold();
    this.change();
  }

  /** Whether the assignment is held. */
  get held() { return this.model.method === HELD; }

  /** Hold what the picture shows: which class is inside, and which face answers for whom. */
  hold() {
    const { picture, model } = this;
    model.settings.inside_label = picture.state.settings.inside_label;
    for (const point of model.points) {
      point.face = picture.samples.face[this.place(point)] ?? -1;
      this.answerFor(point);
    }
  }

  /** The assignment is held no more. */
  release() {
    this.model.method = this.entry.methods[0].name;
    this.say("The assignment is held no more.");
  }

  /** While the assignment is held, a sample that has no face gets that of the cell it lies in. */
  answerFor(point) {
    const faces = this.picture?.faces ?? [], score = ({ w, b }) => w[0] * point.x + w[1] * point.y + b;
    if (this.held && !(point.face >= 0)) point.face = faces.reduce((best, face, k) => (score(face) > score(faces[best]) ? k : best), 0);
  }

  undo() { this.model.undo() && this.renewed(); }

  redo() { this.model.redo() && this.renewed(); }

  /** Machine or samples are others altogether. */
  renewed() {
    this.entry = this.hello.machines.find((each) => each.name === this.model.machine) ?? this.hello.machines[0];
    this.leave();
    this.point(null);
    for (const part of [this.controls, this.player]) part.update();
    this.plane.drawAxes(this.model.axes);
    this.change();
  }

  /** Why a State cannot be shown, as a sentence; empty where it can. What else is wrong with it the engine says. */
  refusal(state) {
    const known = state && this.hello.machines.some(({ name, methods }) =>
      name === state.machine && methods.some((method) => method.name === state.method));
    if (!known) return "The link holds no samples and settings that can be read.";
    const count = state.points.length, most = this.hello.limits.points;
    if (count > most) return `There are ${count} samples; the lab takes ${most} at most.`;
    const far = state.points.some(([x, y]) => !(Math.max(Math.abs(x), Math.abs(y)) <= FARTHEST));
    return far ? "There are samples farther than a million from the origin, which is as far as the lab goes." : "";
  }

  /** Another State of the protocol altogether, where it can be shown. */
  replace(state) {
    if (!this.hello) return;
    const refusal = this.refusal(state);
    if (refusal) return void this.complain(refusal);
    this.mark();
    this.model.take(state);
    Object.assign(this.model, { axes: null, classes: null });
    this.view.fit(this.model.points);
    this.renewed();
  }

  /** A file of the person's own, which the file picker has handed over. */
  async openFile(file) {
    const most = this.hello.limits.text, larger = `polyopt lab --points ${file.name} takes larger and compressed ones`;
    if (file.size > most) return this.complain(`The file has more than ${most} bytes; ${larger}.`);
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return this.complain(`The file is not a text in UTF-8; ${larger}.`);
    }
    const table = { name: file.name, text, target: null }, answer = await this.desk.ask("columns", { table });
    if (answer.kind !== "columns") return this.complain(answer.sentence);
    this.controls.opened(table, answer.names);
    return this.load({ table }, null);
  }

  /** A set by its name, or a table: {name} or {table}. */
  async load(source, features) {
    const answer = await this.desk.ask("dataset", { ...source, features, most: 150, seed: 0 });
    if (answer.kind !== "dataset") return this.complain(answer.sentence);
    this.mark();
    if (this.held) this.release();
    this.model.take({ ...this.model.wire(), points: answer.points });
    Object.assign(this.model, { axes: answer.axes, classes: answer.classes });
    this.view.fit(this.model.points);
    this.renewed();
    this.controls.loaded(answer, source, features);
  }

  // --- requests --------------------------------------------------------------------------------------------------

  /** Ask for a picture of the newest model, unless one is on its way. */
  pump() {
    if (!this.open || !this.dirty || !this.hello) return;
    const now = performance.now();
    if (this.flight && !this.settled) return;  // while it moves, each answer is waited for
    if (this.flight && now - this.flight.began < PATIENCE) {
      clearTimeout(this.later);
      this.later = setTimeout(() => this.pump(), PATIENCE - (now - this.flight.began) + 1);
      return;
    }
    this.dirty = false;
    const { settled, stamp, model, view } = this, across = settled ? NODES.rest : NODES.drag;
    const up = Math.min(Math.max(Math.round((across * view.inner.h) / view.inner.w), 8), this.hello.limits.grid);
    const flight = (this.flight = { began: now, stamp, settled, ids: model.points.map((point) => point.id), state: model.wire() });
    this.desk.ask("solve", { state: flight.state, view: view.box, grid: [across, up], replace: true },
      (message) => this.flight === flight && this.figures.running(message)).then((answer) => this.take(flight, answer));
  }

  take(flight, answer) {
    if (this.flight !== flight) return;  // a newer one is on its way
    this.flight = null;
    this.figures.running(null);
    if (answer.kind === "picture") this.show(flight, answer);
    else if (answer.kind === "error") {
      this.forget();
      this.complain(answer.sentence);
    } else if (answer.kind === "stopped" && !answer.superseded && !this.dirty) {
      this.forget();  // what is shown is of an earlier model
      this.complain(answer.sentence);
    }
    this.pump();
  }

  show(flight, picture) {
    picture.index = new Map(flight.ids.map((id, i) => [id, i]));
    picture.strongest = strongest(picture);
    this.picture = picture;
    this.complain(this.opening ?? "");
    this.opening = null;
    this.plane.drawPicture(picture, !flight.settled);
    this.drawSamples();
    this.figures.show(picture);
    const record = { id: picture.id, points: flight.ids.length, machine: this.model.machine, ms: 0,
      engine_ms: 1000 * picture.seconds, moving: !flight.settled };
    requestAnimationFrame(() => setTimeout(() => {
      record.ms = performance.now() - flight.stamp;
      this.timings.push(record);
    }));
    if (flight.settled) this.rest(picture);
  }

  /** What takes its time, and waits until nothing moves. */
  rest(picture) {
    say(this.title, picture.title);
    this.legend.replaceChildren(...legend(picture, this.model.classes));
    this.controls.update();
    this.nameSamples();
    this.programs.renew();
    if (this.chosen) this.person.show(this.chosen);
    if (picture.stopped) this.say("Broken off: the best point so far is shown.");
  }

  /** There is no picture of this model. */
  forget() {
    this.picture = null;
    this.plane.drawPicture(null);
    this.drawSamples();
    this.nameSamples();
    this.figures.show(null);
    this.legend.replaceChildren(...legend(null, this.model.classes));
    this.person.show(this.chosen);
    this.programs.forget();
  }

  /** A request that may take long: with its progress, and a sentence where it fails. */
  async long(op, fields, heard = () => {}) {
    this.longs += 1;
    const answer = await this.desk.ask(op, fields, (message) => {
      this.figures.running(message);
      heard(message);
    });
    this.longs -= 1;
    if (this.longs === 0) this.leaving = false;
    if (this.flight) return answer;  // a newer picture is on its way
    this.figures.running(null);
    if (this.picture) this.figures.show(this.picture);
    if (answer.kind === "error") this.complain(answer.sentence);
    else if (answer.kind === "stopped") this.say(answer.sentence);
    return answer;
  }

  stop() { this.desk.ask("stop").then((answer) => answer.sentence && this.say(answer.sentence)); }

  // --- what is shown ---------------------------------------------------------------------------------------------

  /** Another part of the plane. */
  look(settled) {
    this.plane.drawAxes(this.model.axes);
    this.plane.drawPicture(this.picture);
    this.drawStep();
    this.change(settled);
  }

  /** The number of a sample in the picture; -1 where it came later. */
  place(point) { return this.picture?.index.get(point.id) ?? -1; }

  drawSamples() {
    const { picture, step } = this, known = picture?.samples;
    this.plane.drawSamples(this.model.points, (point) => {
      const i = this.place(point);
      if (i < 0) return null;
      // The multipliers are the answer's, and no step's.
      const look = { size: known.support[i] && !step ? Math.max(known.size[i], 1e-3) : 0, family: picture.strongest.family[i],
        capped: picture.strongest.capped[i], wrong: known.label[i] !== point.label, face: -1 };
      if (step?.probabilities) look.chance = step.probabilities[i];
      if (step?.assignment) look.face = step.assignment[i];
      else if (this.held) look.face = known.face[i];
      return look;
    }, this.chosen?.id);
  }

  /** What a screen reader says of each sample. */
  nameSamples() {
    const { picture } = this;
    this.model.points.forEach((point, n) => {
      const i = this.place(point), parts = [`Sample ${n}, class ${point.label > 0 ? "+1" : "−1"}, at (${number(point.x, 3)}, ${number(point.y, 3)})`];
      if (i >= 0) {
        parts.push(`decision value ${number(picture.samples.f[i], 3)}`, picture.samples.support[i] ? "support vector" : "no support vector");
        if (picture.samples.label[i] !== point.label) parts.push("on the wrong side");
      }
      const node = this.plane.nodes.get(point.id);
      if (node) put(node, { "aria-label": parts.join("; ") });
    });
  }

  /** A sample is pointed at, or has the focus, which stays. */
  point(point, focus = false) {
    if (point === null && this.focused && this.model.points.includes(this.focused)) point = this.focused;
    if (focus) this.focused = point;
    if (point === this.chosen) return;
    this.chosen = point;
    this.drawSamples();
    this.person.show(point);
  }

  drawStep() { this.plane.drawStep(this.step, this.entry.shape, this.trace?.optimum?.faces ?? []); }

  /** A step of a run over the picture; null for none. */
  stepped(step, trace = null) {
    Object.assign(this, { step, trace });
    this.plane.svg.classList.toggle("stepping", Boolean(step));
    this.drawStep();
    this.drawSamples();
    const best = trace?.optimum?.objective;
    if (step === null) this.figures.show(this.picture);
    else if (step.objective !== null && best !== undefined) {
      this.figures.spread(null, Math.max(0, step.objective - best) / Math.max(Math.abs(best), 1e-12));
    } else if (step.objective !== null && step.bound !== null && step.bound !== undefined) {
      const apart = Math.max(0, step.objective - step.bound) / Math.max(Math.abs(step.objective), 1e-12);
      this.figures.spread(apart, apart);
    }
  }

  /** Something for whoever does not see it. */
  say(text) { say(this.spoken, text ?? ""); }

  /** What is wrong, as a sentence; empty where nothing is. */
  complain(text) {
    const told = text ?? "", name = told.split(" ")[0];
    const isName = this.hello?.machines.some((each) => each.name === name) || !/^[a-z]{2,}$/.test(name);
    say(this.trouble, isName ? told : told[0].toUpperCase() + told.slice(1));
    this.trouble.hidden = !text;
  }
}

/** Whether a setting takes a value that another machine had. */
function fits({ kind, low, high, choices }, value) {
  if (kind === "choice") return choices.includes(value);
  if (kind === "flag") return typeof value === "boolean";
  return typeof value === "number" && value >= low && value <= high && (kind !== "integer" || Number.isInteger(value));
}
