// What can be taken away: a link, the picture, the lines of Python, the certificate, the samples.

import { h, s, say } from "./dom.js";
import { encoded } from "./model.js";

const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin",
  "opacity", "font-size", "font-family", "font-weight", "text-anchor", "paint-order"];

/** The plane as a picture that stands alone: what the style sheet says is written into it. */
export function standalone(plane, paper) {
  const { svg, canvas, view } = plane, copy = svg.cloneNode(true);
  const own = [svg, ...svg.querySelectorAll("*")], others = [copy, ...copy.querySelectorAll("*")];
  own.forEach((element, i) => {
    const style = getComputedStyle(element);
    if (style.display === "none" || element.classList.contains("near")) return others[i].setAttribute("display", "none");
    for (const name of LOOKS) others[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-label", "aria-roledescription", "aria-describedby", "data-id"]) others[i].removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const [left, top, wide, high] = ["left", "top", "width", "height"].map((name) => parseFloat(canvas.style[name]));
  const clip = copy.querySelector("clipPath").id, ground = [s("rect", { width: view.width, height: view.height, fill: paper })];
  if (!canvas.hidden && canvas.width) {
    ground.push(s("g", { "clip-path": `url(#${clip})` }, s("image", {
      href: canvas.toDataURL("image/png"), x: left, y: top, width: wide, height: high, preserveAspectRatio: "none" })));
  }
  copy.prepend(copy.querySelector("clipPath"), ...ground);
  return new XMLSerializer().serializeToString(copy);
}

/** The same as a PNG, with more pixels than the page's. */
async function drawn(text, { width, height }, scale = 2) {
  const image = new Image(), canvas = h("canvas", {});
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function save(place, blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name, hidden: true });
  place.append(link);  // some notebooks see to downloads themselves, where a click on the page is one
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export class Share {
  constructor(lab) {
    this.lab = lab;
    const button = (name, text, onclick) => h("button", { type: "button", "data-name": name, text, onclick });
    this.link = h("input", { type: "text", readonly: true, "aria-label": "Link that holds the samples and all settings" });
    this.python = h("pre", { class: "scroll", tabindex: 0, "aria-label": "Lines of Python" });
    this.claim = h("p", { class: "quiet" });
    this.told = h("p", { class: "quiet", role: "status" });
    this.claimFile = button("claim-file", "Certificate's file", () => save(this.element, new Blob([this.answer.claim], { type: "application/json" }), this.answer.claim_name));
    this.dataFile = button("data-file", "Samples' file", () => save(this.element, new Blob([this.answer.data]), this.answer.data_name));
    this.linking = h("div", { class: "buttons" }, this.link, button("copy-link", "Copy the link", () => this.copy(this.link.value)));
    this.element = h("dialog", { class: "share", "aria-label": "Share" },
      h("form", { method: "dialog" }, h("button", { class: "close", "aria-label": "Close", text: "×" })),
      h("h2", { text: "Take it along" }), this.linking,
      h("div", { class: "buttons" }, button("png", "Picture (PNG)", () => this.picture("png")),
        button("svg", "Picture (SVG)", () => this.picture("svg")), this.claimFile, this.dataFile),
      this.claim, h("h3", { text: "The same in Python" }), this.python,
      h("div", { class: "buttons" }, button("copy-python", "Copy the lines", () => this.copy(this.python.textContent))), this.told);
    this.element.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();  // the page's policy lets no form be sent
      this.element.close();
    });
  }

  async open() {
    const { lab } = this;
    this.element.showModal();
    say(this.told, "");
    this.linking.hidden = !lab.options.address;
    if (lab.options.address) this.link.value = `${lab.options.address()}#${await encoded(lab.model.wire())}`;
    this.answer = await lab.desk.ask("export", { state: lab.model.wire() });
    const right = this.answer.kind === "export";
    say(this.python, right ? this.answer.python : this.answer.sentence ?? "");
    say(this.claim, right ? this.answer.claim_sentence ?? "" : "");
    this.claimFile.disabled = !right || !this.answer.claim;
    this.dataFile.disabled = !right || !this.answer.data;
  }

  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      say(this.told, "Copied.");
    } catch {
      say(this.told, "The browser did not let it be copied: mark the text and copy it.");
    }
  }

  async picture(kind) {
    const { plane, palette, view } = this.lab, paper = `rgb(${palette.rgb("paper").join(",")})`;
    const text = standalone(plane, paper), name = `polyopt-${this.lab.model.machine}`;
    save(this.element, kind === "svg" ? new Blob([text], { type: "image/svg+xml" }) : await drawn(text, view), `${name}.${kind}`);
  }
}
