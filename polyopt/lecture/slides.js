"use strict";
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const body = document.body, out = document.querySelector(".controls output");
  const wide = matchMedia("(min-width: 700px)");
  let now = 0;

  // Make a slide's letters smaller until all of it is there; a slide is as wide as it is high at any size of the window.
  const fit = () => {
    if (!wide.matches) return;
    for (const slide of slides) {
      const box = slide.querySelector(".body");
      let size = 1;
      slide.style.setProperty("--fit", size);
      while (size > 0.5 && (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1)) {
        size -= 0.04;
        slide.style.setProperty("--fit", size.toFixed(2));
      }
    }
  };

  const show = (number, move = true) => {
    now = Math.max(0, Math.min(slides.length - 1, number));
    slides.forEach((slide, i) => slide.classList.toggle("now", i === now));
    out.textContent = `${now + 1} / ${slides.length}`;
    if (move) history.replaceState(null, "", `#${now + 1}`);
    if (!wide.matches && move) slides[now].scrollIntoView();
  };
  const toggleNotes = () => {
    const open = body.classList.toggle("notes-open");
    document.querySelector("[data-notes]").setAttribute("aria-pressed", String(open));
  };

  const steps = {ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, Enter: 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1,
    Backspace: -1};
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const onButton = event.target instanceof HTMLButtonElement && (event.key === " " || event.key === "Enter");
    if (onButton || (!wide.matches && event.key !== "n")) return;
    if (event.key in steps) show(now + (event.shiftKey && event.key === " " ? -1 : steps[event.key]));
    else if (event.key === "Home") show(0);
    else if (event.key === "End") show(slides.length - 1);
    else if (event.key === "n") toggleNotes();
    else if (event.key === "f") document.fullscreenElement ? document.exitFullscreen() : body.requestFullscreen();
    else return;
    event.preventDefault();
  });

  let from = null;
  addEventListener("touchstart", (event) => {
    from = event.touches.length === 1 ? [event.touches[0].clientX, event.touches[0].clientY] : null;
  }, {passive: true});
  addEventListener("touchend", (event) => {
    if (!from || !wide.matches) return;
    const [x, y] = [event.changedTouches[0].clientX - from[0], event.changedTouches[0].clientY - from[1]];
    if (Math.abs(x) > 40 && Math.abs(x) > 2 * Math.abs(y)) show(now + (x < 0 ? 1 : -1));
  }, {passive: true});

  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => show(now + Number(button.dataset.step)));
  }
  document.querySelector("[data-notes]").addEventListener("click", toggleNotes);
  addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
  wide.addEventListener("change", fit);
  body.classList.add("deck");
  fit();
  show(Number(location.hash.slice(1)) - 1 || 0, false);
})();
