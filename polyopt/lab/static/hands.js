// Samples drawn, dragged, deleted and flipped: by mouse, by touch, and by the keyboard.

import { h, number, still } from "./dom.js";
import { sample } from "./model.js";

const TOOLS = [
  ["move", "Move", "Drag samples; drag the plane itself with the mouse to shift it"],
  ["positive", "+1", "Click or drag over the plane to draw samples of class +1"],
  ["negative", "−1", "Click or drag over the plane to draw samples of class −1"],
  ["flip", "Flip", "Click a sample to give it the other class"],
  ["delete", "Delete", "Click a sample to delete it"],
];
const REACH = { mouse: 14, pen: 16, touch: 26 };  // pixels from a sample that still take it
const SPRAY = 24;  // pixels between samples that are drawn in one stroke
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Hands {
  constructor(lab) {
    this.lab = lab;
    this.tool = "move";
    this.held = null;
    const { frame } = lab.plane;
    this.buttons = TOOLS.map(([name, text, title]) => h("button", {
      type: "button", class: `tool ${name}`, "data-tool": name, "aria-pressed": String(name === this.tool), title,
      onclick: () => this.pick(name),
    }, name === "positive" || name === "negative" ? h("span", { class: "verb", text: "Draw " }) : null, text));
    this.bar = h("div", { class: "tools", role: "group", "aria-label": "What a click on the plane does" }, this.buttons);
    frame.addEventListener("pointerdown", (event) => this.down(event));
    frame.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) frame.addEventListener(end, (event) => this.up(event));
    frame.addEventListener("pointerleave", () => !this.held && lab.point(null));
    frame.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    frame.addEventListener("keydown", (event) => this.key(event));
    frame.addEventListener("focusin", (event) => lab.point(this.of(event.target), true));
  }

  pick(name) {
    this.tool = name;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.tool === name));
    this.lab.plane.frame.dataset.tool = name;
  }

  /** The sample that an element stands for. */
  of(element) {
    const id = Number(element.closest?.(".sample")?.dataset.id);
    return this.lab.model.points.find((point) => point.id === id) ?? null;
  }

  at(event) {
    const { left, top } = this.lab.plane.frame.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  down(event) {
    if (event.button !== 0 || this.held) return;
    const { lab } = this, [px, py] = this.at(event);
    const found = lab.plane.near(lab.model.points, px, py, REACH[event.pointerType] ?? 14);
    const gesture = `pointer ${event.timeStamp}`;
    if (found && this.tool === "delete") return lab.erase(found);
    if (found && this.tool === "flip") return lab.flip(found);
    if (found) this.held = { point: found, gesture, moved: false, from: [px, py] };
    else if (this.tool === "positive" || this.tool === "negative") {
      this.held = { spray: [px, py], gesture };
      this.draw(event, px, py);
    } else if (this.tool === "move" && event.pointerType !== "touch") this.held = { pan: [px, py], box: [...lab.view.box] };
    if (!this.held) return;
    try { lab.plane.frame.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
    if (found) lab.plane.nodes.get(found.id)?.focus({ preventScroll: true });
    event.preventDefault();
  }

  draw(event, px, py) {
    const { lab } = this, [x, y] = lab.view.from(px, py);
    this.held.spray = [px, py];
    lab.add(sample(...lab.view.tidy(x, y), this.tool === "positive" ? 1 : -1), this.held.gesture, event.timeStamp);
  }

  move(event) {
    const { lab, held } = this, [px, py] = this.at(event);
    if (!held) return lab.point(lab.plane.near(lab.model.points, px, py, REACH[event.pointerType] ?? 14));
    if (held.point) {
      if (!held.moved && Math.hypot(px - held.from[0], py - held.from[1]) < 3) return;
      held.moved = true;
      lab.moveTo(held.point, lab.view.from(px, py), held.gesture, event.timeStamp);
    } else if (held.spray) {
      if (Math.hypot(px - held.spray[0], py - held.spray[1]) > SPRAY) this.draw(event, px, py);
    } else {
      const [ux, uy] = lab.view.pixel, [x0, x1, y0, y1] = held.box;
      const dx = (px - held.pan[0]) * ux, dy = (py - held.pan[1]) * uy;
      lab.view.box = [x0 - dx, x1 - dx, y0 + dy, y1 + dy];
      lab.look(false);
    }
  }

  up() {
    const { held, lab } = this;
    this.held = null;
    if (held?.pan) lab.look(true);
    else if (held?.moved || held?.spray) lab.change();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;  // without a key the wheel is the page's
    event.preventDefault();
    this.lab.view.zoom(Math.exp(-event.deltaY / 300), this.lab.view.from(...this.at(event)));
    this.lab.look(true);
  }

  key(event) {
    const { lab } = this, point = this.of(event.target), key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[key];
    if (point && step) {
      const [ux, uy] = lab.view.pixel, far = event.shiftKey ? 1 : 8;
      lab.moveTo(point, [point.x + step[0] * far * ux, point.y + step[1] * far * uy], `keys ${point.id}`, event.timeStamp);
      lab.changeSoon();
    } else if (point && (key === "Delete" || key === "Backspace")) this.eraseByKey(point);
    else if (point && key === "f") lab.flip(point);
    else if (key === "n") this.addByKey(point);
    else if (key === "Escape") lab.after.focus({ preventScroll: still() });
    else if (step) {
      const [ux, uy] = lab.view.pixel, [x0, x1, y0, y1] = lab.view.box, dx = step[0] * 30 * ux, dy = step[1] * 30 * uy;
      lab.view.box = [x0 + dx, x1 + dx, y0 + dy, y1 + dy];
      lab.look(true);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  eraseByKey(point) {
    const { lab } = this, { points } = lab.model, place = points.indexOf(point);
    const next = points[place + 1] ?? points[place - 1];
    lab.erase(point);
    (next ? lab.plane.nodes.get(next.id) : lab.plane.frame).focus();
    lab.say(`Deleted. ${points.length - 1} samples are left.`);
  }

  /** A new sample of the class beside the one with the focus, else of the class to draw in the middle. */
  addByKey(point) {
    const { lab } = this, [ux, uy] = lab.view.pixel, [x0, x1, y0, y1] = lab.view.box;
    const made = point ? sample(...lab.view.tidy(point.x + 20 * ux, point.y + 20 * uy), point.label)
      : sample(...lab.view.tidy((x0 + x1) / 2, (y0 + y1) / 2), this.tool === "negative" ? -1 : 1);
    if (!lab.add(made, null, performance.now())) return;
    lab.change();
    lab.plane.nodes.get(made.id).focus();
    lab.say(`A sample of class ${made.label > 0 ? "+1" : "−1"} at (${number(made.x, 3)}, ${number(made.y, 3)}).`);
  }
}
