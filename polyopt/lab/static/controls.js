// What a person chooses: data, machine, method and its settings.

import { h, number, say } from "./dom.js";

const FINE = 400;  // steps of a slider
const FOLDED = new Set(["coef0", "loss", "sgd__average", "positives", "n_init", "max_iter"]);  // settings that few change

/** An element with its label. */
const field = (name, label, control, ...more) =>
  h("div", { class: "field", "data-field": name }, h("label", { for: control.id, text: label }), control, ...more);

const options = (pairs, chosen) => pairs.map(([value, text]) => h("option", { value, text, selected: value === chosen }));

let controls = 0;

export class Controls {
  constructor(lab) {
    this.lab = lab;
    this.key = `polyopt-${++controls}`;
    this.machine = h("select", { id: `${this.key}-machine`, onchange: () => lab.choose(this.machine.value) });
    this.method = h("select", { id: `${this.key}-method`, onchange: () => lab.chooseMethod(this.method.value) });
    this.settings = h("div", { class: "settings" });
    this.data = h("select", { id: `${this.key}-data`, onchange: () => {
      this.table = null;
      this.targets.hidden = true;
      if (this.data.value) lab.load({ name: this.data.value }, null);
    } });
    this.picker = h("input", { type: "file", hidden: true, "data-name": "file", accept: ".csv,.tsv,.txt,.dat,.data,.svm,.svmlight,.libsvm,text/*",
      onchange: () => {
        const [file] = this.picker.files;
        this.picker.value = "";  // the same file may be opened again
        if (file) lab.openFile(file);
      } });
    this.opener = h("button", { type: "button", "data-name": "open-file", text: "Open a file…",
      title: "A table of features and one column of classes (CSV), or an svmlight file", onclick: () => this.picker.click() });
    this.targets = h("div", { hidden: true });
    this.features = h("div", { class: "features", hidden: true });
    this.words = h("p", { class: "quiet" });
    this.element = h("section", { class: "controls", "aria-label": "Machine and data" },
      field("machine", "Machine", this.machine), field("method", "Solved", this.method), this.settings,
      h("hr", {}), field("data", "Samples", this.data), this.opener, this.picker, this.targets, this.features, this.words);
    this.shown = "";
  }

  /** Fill the lists with what the engine has. */
  begin({ machines, datasets }) {
    this.machine.replaceChildren(...options(machines.map((each) => [each.name, each.title])));
    this.data.replaceChildren(...options([["", "as they are drawn"], ...datasets.map((each) => [each.name, each.title])]));
    this.shown = "";
  }

  /** Show what the model has; the settings are built anew only where they are others. */
  update() {
    const { model, entry } = this.lab;
    this.machine.value = model.machine;
    if (this.shown !== model.machine) {
      this.shown = model.machine;
      this.method.replaceChildren(...options(entry.methods.map((each) => [each.name, each.title])));
      this.rows = entry.settings.map((setting) => this.row(setting));
      const [few, most] = [true, false].map((fold) => this.rows.filter(({ setting }) => FOLDED.has(setting.name) === fold));
      const more = h("details", { class: "more" }, h("summary", { text: "More settings" }), few.map((row) => row.element));
      this.more = { element: more, rows: few };
      this.settings.replaceChildren(...most.map((row) => row.element), more);
    }
    this.method.value = model.method;
    for (const row of this.rows) {
      row.element.hidden = !this.matters(row.setting.name);
      row.show(model.settings[row.setting.name]);
    }
    this.more.element.hidden = this.more.rows.every((row) => row.element.hidden);
  }

  /** A setting as the model has it, or its default. */
  value(name) {
    const setting = this.lab.entry.settings.find((each) => each.name === name);
    const own = this.lab.model.settings[name];
    return own === undefined ? setting?.default : own;
  }

  /** Whether a setting has a say, with the others as they are. */
  matters(name) {
    const setting = this.lab.entry.settings.find((each) => each.name === name);
    return Object.entries(setting?.needs ?? {}).every(([other, values]) => values.includes(this.value(other)));
  }

  row(setting) {
    const id = `${this.key}-${setting.name}`, change = (value, tag) => this.lab.set(setting.name, value, tag);
    if (setting.kind === "flag") {
      const box = h("input", { type: "checkbox", id, onchange: () => change(box.checked) });
      const element = h("div", { class: "field flag", "data-field": setting.name }, box, h("label", { for: id, text: setting.title }));
      return { setting, element, show: (value) => { box.checked = Boolean(value ?? setting.default); } };
    }
    if (setting.kind === "choice") {
      const known = setting.tuned ? [null, ...setting.choices] : setting.choices;
      const pairs = known.map((each) => [String(each), each === null ? "automatic" : typeof each === "number" ? number(each) : each]);
      const list = h("select", { id, onchange: () => change(known[list.selectedIndex]) }, options(pairs));
      const show = (value) => { list.value = String(value ?? setting.default); };
      return { setting, element: field(setting.name, setting.title, list), show };
    }
    return this.slider(setting, id, change);
  }

  /** A slider, its number beside it, and for what the data may choose a box that lets them. */
  slider(setting, id, change) {
    const { low, high, log, kind, tuned } = setting, whole = kind === "integer";
    const to = (value) => (log ? Math.log10(value) : value), from = (place) => (log ? 10 ** place : Number(place));
    const tidy = (value) => (whole ? Math.round(value) : Number(value.toPrecision(3)));
    const [start, end] = [to(low), to(high)];
    const fromSlide = () => Math.min(Math.max(tidy(from(slide.value)), low), high);
    const slide = h("input", {
      type: "range", "aria-label": setting.title, min: start, max: end, step: whole ? 1 : (end - start) / FINE,
      oninput: () => change(fromSlide(), `slide ${setting.name}`),
      onchange: () => this.lab.change(),
    });
    const exact = h("input", { type: "number", id, min: low, max: high, step: whole ? 1 : "any", inputmode: "decimal" });
    exact.addEventListener("change", () => {
      const value = exact.valueAsNumber;
      const right = Number.isFinite(value) && value >= low && value <= high && (!whole || Number.isInteger(value));
      exact.setAttribute("aria-invalid", String(!right));
      if (right) change(value);
      else this.lab.complain(`${setting.title} must be ${whole ? "a whole number " : ""}from ${number(low)} to ${number(high)}.`);
    });
    const box = tuned ? h("input", { type: "checkbox", id: `${id}-tuned`, "aria-label": `${setting.title}: automatic`,
      onchange: () => change(box.checked ? null : exact.value === "" ? fromSlide() : Number(exact.value)) }) : null;
    const element = field(setting.name, setting.title, exact, slide,
      box && h("span", { class: "tuned" }, box, h("label", { for: box.id, text: "automatic" })));
    element.classList.add("slider");
    const show = (value) => {
      const open = tuned && (value === null || value === undefined);
      const known = open ? this.lab.picture?.state.settings[setting.name] : value ?? setting.default;
      if (box) box.checked = open;
      element.classList.toggle("open", Boolean(open));
      if (known === null || known === undefined) return void (exact.value = "");
      if (document.activeElement !== exact) exact.value = open ? Number(known.toPrecision(4)) : known;
      slide.value = to(Math.min(Math.max(known, low), high));
      slide.setAttribute("aria-valuetext", number(known, 3));
      exact.setAttribute("aria-invalid", "false");
    };
    return { setting, element, show };
  }

  /** A file has been opened: which of its columns holds the classes. */
  opened(table, names) {
    this.table = table;
    this.targets.hidden = names.length < 2;
    const list = h("select", { id: `${this.key}-target`, onchange: () => {
      table.target = Number(list.value);
      this.lab.load({ table }, null);
    } }, options(names.map((name, i) => [String(i), name || `column ${i}`]), String(names.length - 1)));
    this.targets.replaceChildren(field("target", `Class, a column of ${table.name}`, list));
  }

  /** After a set has been loaded: what it is, and which two of its features are looked at. */
  loaded(answer, source, features) {
    say(this.words, answer.sentence);
    this.data.value = source.name ?? "";
    if (source.table !== this.table) this.targets.hidden = true;
    this.features.hidden = answer.columns.length < 3;
    const names = answer.columns.map((column, i) => [String(i), column]);
    const lists = [0, 1].map((place) => h("select", {
      "data-axis": place ? "y" : "x", "aria-label": place ? "Feature upwards" : "Feature across",
      onchange: () => {
        const own = lists[place].value, free = names.map(([value]) => value).find((value) => value !== own);
        const other = lists[1 - place].value !== own && lists[1 - place].value || free;
        this.lab.load(source, own === "" ? null : (place ? [other, own] : [own, other]).map(Number));
      },
    }, options([["", "principal plane"], ...names], features ? String(features[place]) : "")));
    this.features.replaceChildren(...lists);
  }

  /** Samples were changed by hand. */
  drawn() {
    this.data.value = "";
    this.features.hidden = this.targets.hidden = true;
    say(this.words, "");
  }
}
