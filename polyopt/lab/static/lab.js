// The lab, put together: on the page that polyopt serves, and in a notebook.

import { Bench } from "./bench.js";
import { Controls } from "./controls.js";
import { h, say } from "./dom.js";
import { Figures } from "./figures.js";
import { Hands } from "./hands.js";
import { legend } from "./legend.js";
import { decoded, encoded } from "./model.js";
import { Person } from "./person.js";
import { Plane } from "./plane.js";
import { Player } from "./player.js";
import { Programs } from "./programs.js";
import { Palette } from "./shading.js";
import { Share } from "./share.js";
import { View } from "./view.js";
import { Desk, overModel, overSocket } from "./wire.js";

const MANY = 3;  // attempts to connect after which it may be another server that answers
const ANEW = " If polyopt lab was started anew, open the link that it printed. What is after # in this page's address are your samples: "
  + "added to that link they are kept.";
const THEMES = ["auto", "light", "dark"];
const KEYS = "Tab reaches a sample. Arrows move it (with Shift by little), F flips it, Delete deletes it, N makes another beside "
  + "it. Escape leaves the plane. Ctrl+Z undoes. Ctrl and the wheel zoom.";

/** What is remembered of this browser, where it lets anything be. */
const remembered = {
  get theme() { try { return localStorage.getItem("polyopt-lab-theme"); } catch { return null; } },
  set theme(value) { try { localStorage.setItem("polyopt-lab-theme", value); } catch { /* it is not */ } },
};

function button(name, text, label, onclick) {
  return h("button", { type: "button", "data-name": name, "aria-label": label, title: label, text, onclick });
}

/** The switch between the light, the dark, and what the system has. */
function themes(root, bench) {
  const change = (theme) => {
    root.dataset.theme = theme;
    say(one, { auto: "◐", light: "☀", dark: "☾" }[theme]);
    one.setAttribute("aria-label", `Colours: ${theme}`);
    one.title = `Colours: ${theme}`;
    bench.repaint?.();
  };
  const one = button("theme", "", "Colours", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    remembered.theme = next;
    change(next);
  });
  const known = remembered.theme;
  change(THEMES.includes(known) ? known : "auto");
  return one;
}

/** All elements of the lab, in their places. */
function built(bench, root) {
  const frame = h("div", { class: "frame", tabindex: 0, role: "group", "data-tool": "move",
    "aria-label": "The plane. N makes a new sample; arrows shift what is seen." });
  const probe = h("span", { class: "probe", hidden: true });
  root.append(probe);
  bench.palette = new Palette(root);
  bench.view = new View();
  bench.plane = new Plane(frame, bench.view, bench.palette);
  for (const [name, Part] of Object.entries({ controls: Controls, figures: Figures, person: Person, player: Player,
    programs: Programs, share: Share, hands: Hands })) bench[name] = new Part(bench);
  bench.plane.describedBy = bench.person.why.id;  // a sample that has the focus is told of there
  bench.title = h("p", { class: "title", "data-name": "title" });
  bench.legend = h("ul", { class: "legend" });
  bench.spoken = h("p", { class: "spoken", role: "status" });
  bench.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  bench.connection = h("p", { class: "connection", role: "status", hidden: true });
  bench.after = button("closer", "+", "Closer", () => { bench.view.zoom(1.4); bench.look(true); });
  const zooms = h("div", { class: "zooms", role: "group", "aria-label": "What is seen" }, bench.after,
    button("farther", "−", "Farther", () => { bench.view.zoom(1 / 1.4); bench.look(true); }),
    button("fit", "Fit", "All samples", () => { bench.view.fit(bench.model.points); bench.look(true); }));
  const head = h("header", {}, h("h1", {}, "polyopt ", h("span", { text: "lab" })), bench.title, h("div", { class: "buttons" },
    button("undo", "↶", "Undo", () => bench.undo()), button("redo", "↷", "Redo", () => bench.redo()),
    button("share", "Share", "Share: link, picture, Python, certificate", () => bench.share.open()), themes(root, bench)));
  const keys = h("details", { class: "keys" }, h("summary", { text: "Keys" }), h("p", { class: "quiet", text: KEYS }));
  const bar = h("div", { class: "bar" }, bench.hands.bar, h("button", { type: "button", "data-name": "clear", text: "Clear", onclick: () => bench.clear() }));
  const middle = h("section", { class: "middle", "aria-label": "Picture" }, bar, frame, bench.player.element, h("div", { class: "under" }, bench.legend, zooms), keys);
  const side = h("div", { class: "beside" }, bench.figures.element, bench.person.element);
    root.append(head, bench.connection, bench.trouble,
    h("div", { class: "bench" }, bench.controls.element, middle, side), bench.programs.element, bench.share.element, bench.spoken);
  return frame;
}

/** Keys that hold everywhere in the lab, and none of which the notebook around it is to hear. */
function listen(root, bench) {
  root.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (!(event.ctrlKey || event.metaKey) || event.target.matches("input, textarea")) return;
    const key = event.key.toLowerCase();
    if (key === "z" && !event.shiftKey) bench.undo();
    else if (key === "y" || (key === "z" && event.shiftKey)) bench.redo();
    else return;
    event.preventDefault();
  });
}

/** Greet the engine, and show what it begins with, or what the link holds. */
async function greet(bench, first) {
  const hello = await bench.desk.ask("hello");
  if (hello.kind !== "hello") return;
  bench.hello = hello;
  bench.controls.begin(hello);
  if (first) {
    const held = await bench.options.held?.(), refusal = held === undefined ? "" : bench.refusal(held);
    bench.model.take(held && !refusal ? held : hello.state);
    if (!held || refusal) Object.assign(bench.model, { axes: hello.state.axes ?? null, classes: hello.state.classes ?? null });
    bench.plane.measure();
    bench.view.fit(bench.model.points);
    if (bench.options.link) bench.opening = refusal;
  }
  bench.open = true;
  bench.renewed();
  bench.element.dataset.ready = "true";
}

/**
 * Put the lab into an element.
 *
 * @param el         The element.
 * @param transport  {send, onMessage, onStatus, close}: messages to the engine and back.
 * @param options    {held() -> a State to begin with, changed(state), address()}; all may be left out.
 * @returns          {destroy(), state(), bench}
 */
export function mount(el, transport, options = {}) {
  const root = h("div", { class: "polyopt-lab", "data-lm-suppress-shortcuts": "true" });
  const bench = new Bench(new Desk(transport), options);
  bench.element = root;
  el.append(root);
  const frame = built(bench, root);
  bench.legend.replaceChildren(...legend(null, null));
  bench.repaint = () => {
    bench.palette.forget();
    if (bench.hello) bench.plane.drawPicture(bench.picture);
  };
  listen(root, bench);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", bench.repaint);
  const sizes = new ResizeObserver(() => {
    if (!bench.plane.measure() || !bench.hello) return;
    bench.plane.drawAxes(bench.model.axes);
    bench.repaint();
    bench.drawSamples();
    bench.drawStep();
  });
  sizes.observe(frame);
  let first = true;
  transport.onStatus((status, failed) => {
    bench.connection.hidden = status === "open";
    if (status === "open") {
      say(bench.connection, "");
      if (!first) bench.say("Connected again.");
      greet(bench, first);
      first = false;
      return;
    }
    bench.open = false;
    bench.flight = null;
    bench.desk.lose();
    bench.figures.running(null);
    say(bench.connection, `The connection to polyopt is lost. Trying again…${failed < MANY ? "" : ANEW}`);
  });
  const destroy = () => {
    bench.player.pause();
    sizes.disconnect();
    scheme.removeEventListener("change", bench.repaint);
    transport.close?.();
    root.remove();
  };
  return { destroy, state: () => bench.model.wire(), bench };
}

/** The lab as the served page has it: its state in the address, and what tests look at in `window.__lab`. */
export function page(el) {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  let timer = 0;
  const options = {
    held: () => (location.hash.length > 1 ? decoded(location.hash.slice(1)) : null),
    address: () => location.origin + location.pathname,
    changed(state) {
      clearTimeout(timer);
      timer = setTimeout(async () => history.replaceState(null, "", `#${await encoded(state)}`), 300);
    },
  };
  options.link = location.hash.length > 1;
  const lab = mount(el, overSocket(`${scheme}//${location.host}/ws`), options);
  window.__lab = { state: lab.state, timings: lab.bench.timings, picture: () => lab.bench.picture,
    busy: () => lab.bench.dirty || lab.bench.desk.waiting.size > 0 };
  window.addEventListener("hashchange", async () => {
    lab.bench.replace(await options.held());
  });
}

/** The lab as a widget; what Python sets as its state is shown. */
function render({ model, el }) {
  let last = "";
  const options = { changed(state) {
    last = JSON.stringify(state);
    model.set("state", state);
    model.save_changes();
  } };
  const lab = mount(el, overModel(model), options), height = model.get("height");
  const follow = () => {
    const state = model.get("state");
    if (state?.points && JSON.stringify(state) !== last) lab.bench.replace(state);
  };
  model.on("change:state", follow);
  if (height) lab.bench.element.style.setProperty("--high", `${height}px`);
  return () => {
    model.off("change:state", follow);
    lab.destroy();
  };
}

export default { render };
