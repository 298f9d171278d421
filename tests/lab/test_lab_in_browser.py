"""The lab as a person has it: a browser, the real server, and the engine's own numbers beside the page's."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from helpers.chromium import fragment
from helpers.lab import Client
from helpers.lab_page import SPILLS, LabPage, browsing, same, served, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


@pytest.fixture(scope="module")
def server():
    with served() as told:
        yield told


@pytest.fixture(scope="module")
def browser():
    with browsing() as one:
        yield one


@pytest.fixture(scope="module")
def desk(browser, server):
    """One page, which most tests share."""
    with LabPage(browser, server[0]) as one:
        yield one


@pytest.fixture
def lab(desk, server):
    """The shared page as it began; nothing may have been complained of at the end."""
    desk.again()
    yield desk
    assert desk.complaints == []
    assert server[1] == []
    assert desk.contradictions() == []


def solved(state):
    """The engine's own answer to a state, without a page."""
    client = Client()
    try:
        return client.ask("solve", state=state, grid=None, words=False)
    finally:
        client.engine.close()


def to_plane(lab):
    """The affine map from pixels to the plane, by where the samples are drawn."""
    places = lab.value(
        """[...document.querySelectorAll('.sample')].map(each =>
        each.getAttribute('transform').match(/[-\\d.]+/g).map(Number))"""
    )
    points = np.array([point[:2] for point in lab.state()["points"]])
    lifted = np.column_stack([places, np.ones(len(places))])
    found, *_ = np.linalg.lstsq(lifted, points, rcond=None)
    assert np.abs(lifted @ found - points).max() < 1e-3 * np.ptp(points), "samples are not where they are"
    return lambda pixels: np.column_stack([pixels, np.ones(len(pixels))]) @ found


def pixels_of(path):
    return np.array(
        [[float(part) for part in pair.split(",")] for pair in re.findall(r"[-\d.]+,[-\d.]+", path)]
    )


LEVEL = "document.querySelector('.lines .level.boundary').getAttribute('d')"


def test_dragged_sample_changes_all_numbers(lab):
    """A drag moves one sample, and picture and numbers are of the new ones; undo takes it back."""
    before, drawn, numbers = lab.state(), lab.value(LEVEL), lab.text("primal")
    lab.drag(7, 150, -90)
    after = lab.state()
    moved = [i for i, (a, b) in enumerate(zip(before["points"], after["points"], strict=True)) if a != b]
    assert moved == [7]
    assert lab.value(LEVEL) != drawn
    assert lab.text("primal") != numbers
    told = solved(after)["certificate"]
    for name, key in (("primal", "primal_value"), ("dual", "dual_value")):
        assert same(lab.number(name), told[key], 1e-5)
    assert lab.text("claim") == told["claim"] == "optimal"
    line = lab.value("__lab.picture().line")
    values = to_plane(lab)(pixels_of(lab.value(LEVEL))) @ line["w"] + line["b"]
    assert np.abs(values).max() < 2e-3 * np.linalg.norm(line["w"]), "the boundary drawn is where f = 0"
    moving = lab.value("__lab.timings.filter(each => each.moving).length")
    assert moving >= 1, "the picture follows while the sample is dragged"
    lab.press("undo")
    lab.ready()
    assert lab.state() == before
    assert lab.value(LEVEL) == drawn
    lab.press("redo")
    lab.ready()
    assert lab.state() == after


def test_bound_is_set_and_drawn(lab):
    """A bound is set, drawn, refused if it cannot be, and given back to the data."""
    lab.page.locator("[data-field='B'] input[type=checkbox]").uncheck()
    lab.write("B", 1.5)
    assert lab.state()["settings"]["B"] == 1.5
    assert sorted({abs(each["value"]) for each in lab.value("__lab.picture().levels")}) == [0, 1, 1.5]
    assert lab.page.locator(".lines .level.bound").count() == 2
    first = lab.number("primal")
    assert same(first, solved(lab.state())["certificate"]["primal_value"], 1e-5)
    lab.page.locator("[data-field='B'] input[type=range]").press("Home")
    lab.ready()
    assert lab.state()["settings"]["B"] == 1
    assert lab.number("primal") > first, "a narrower bound costs"
    lab.write("B", -3)
    assert "must be from 1 to" in lab.page.locator(".trouble").inner_text()
    assert lab.state()["settings"]["B"] == 1
    lab.page.locator("[data-field='B'] input[type=checkbox]").check()
    lab.ready()
    assert lab.state()["settings"]["B"] is None


def test_steps_of_sgd_are_played(lab):
    """The steps of SGD are played and scrubbed, beside the exact optimum."""
    lab.choose("machine", "cpm")
    lab.choose("method", "sgd")
    lab.press("trace")
    lab.until("document.querySelector('.stage').checkVisibility()")
    scrub = lab.page.locator("[data-name='scrub']")
    last = int(scrub.get_attribute("max"))
    assert last >= 5
    seen = {}
    for key in ("Home", "End"):
        scrub.press(key)
        seen[key] = lab.text("step"), lab.value("document.querySelector('.steps').innerHTML")
    assert seen["Home"][0] != seen["End"][0]
    assert "the exact solver ends at" in seen["End"][0]
    assert seen["Home"][1] != seen["End"][1]
    assert "path" in seen["End"][1]
    scrub.press("Home")
    lab.press("play")
    lab.until("Number(document.querySelector('[data-name=scrub]').value) >= 2")
    lab.press("play")
    stopped = scrub.input_value()
    assert lab.page.locator("[data-name='play']").inner_text() == "Play"
    assert 2 <= int(stopped) <= last
    lab.press("leave")
    assert lab.value("document.querySelector('.steps').innerHTML") == ""


def test_program_and_dual_stand_side_by_side(lab):
    """Program and dual stand side by side, with the numbers and binding rows of this moment."""
    lab.page.locator(".programs > summary").click()
    lab.until("document.querySelectorAll('.side').length === 2 && !document.querySelector('.sides.stale')")
    primal, dual = lab.page.locator(".side").all()
    assert "min" in primal.locator(".objective math").text_content()
    assert "max" in dual.locator(".objective math").text_content()
    assert dual.bounding_box()["x"] > primal.bounding_box()["x"] + 100, "side by side"
    row = primal.locator("[data-row='margin']")
    row.locator("summary").click()
    row.locator("tbody tr").first.wait_for()
    multipliers = lab.value(
        "__lab.picture().families.find(each => each.row === 'margin').slack.map(each => Math.abs(each))"
    )
    assert row.locator("tbody tr").count() == len(multipliers)
    marked = row.locator("tbody tr.binding").count()
    assert 0 < marked < len(multipliers)
    assert row.locator(".count").inner_text() == f"{marked} of {len(multipliers)} bind"
    numbers = primal.locator(".worth").inner_text()
    lab.write("C", 0.05)
    lab.until("!document.querySelector('.sides.stale')")
    assert primal.locator(".worth").inner_text() != numbers, "the numbers are those of this moment"
    row.locator("tbody tr").first.wait_for()  # what was open stays open


def test_file_is_opened(lab):
    """A file is opened and its column of classes chosen; a wrong one changes nothing."""
    rows = "".join(f"{'pq'[i % 2]},{i % 5},{(i * i) % 7},{i}\n" for i in range(30))
    picker = lab.page.locator("[data-name='file']")
    before = lab.state()["points"]
    picker.set_input_files(
        {"name": "mine.csv", "mimeType": "text/csv", "buffer": ("k,a,b,c\n" + rows).encode()}
    )
    lab.until("document.querySelector('.trouble').checkVisibility()")
    assert "30 classes in that column" in lab.page.locator(".trouble").inner_text()
    assert lab.state()["points"] == before
    lab.choose("target", "0")
    assert len(lab.state()["points"]) == 30
    assert lab.page.locator(".features option").all_inner_texts()[:4] == ["principal plane", "a", "b", "c"]
    assert "+1: q" in lab.page.locator(".legend").inner_text()
    assert lab.page.locator(".trouble").is_hidden()
    for data, text in [(b"\xff\xfe\x00", "UTF-8"), (b"1," * 600_000, "1000000 bytes")]:
        picker.set_input_files({"name": "other.csv", "mimeType": "text/csv", "buffer": data})
        lab.until("document.querySelector('.trouble').checkVisibility()")
        assert text in lab.page.locator(".trouble").inner_text()
        assert len(lab.state()["points"]) == 30


def test_link_holds_the_state(lab, browser, server):
    """A link holds samples and settings, and a broken one is told."""
    lab.choose("kernel", "rbf")
    lab.write("C", 3)
    lab.drag(3, -40, 30)
    lab.press("share")
    lab.until("document.querySelector('dialog.share pre').textContent.length > 50")
    link = lab.page.locator("dialog.share input").input_value()
    python = lab.page.locator("dialog.share pre").inner_text()
    assert "RelativeMarginMachine" in python
    lab.page.locator("dialog.share .close").click()
    assert len(link) < 2000
    lab.until(f"location.hash.slice(1) === '{urlsplit(link).fragment}'")  # the address itself is the link
    with LabPage(browser, server[0], "no-state-at-all") as other:
        assert other.state() != lab.state()
        assert "no samples and settings" in other.page.locator(".trouble").inner_text()
        other.follow(urlsplit(link).fragment)
        other.until(f"__lab.state().points.length === {len(lab.state()['points'])}")
        other.ready()
        assert other.state() == lab.state()
        assert other.text("primal") == lab.text("primal")
        assert not other.page.locator(".trouble").is_visible()
        assert other.complaints == []


def test_held_assignment_stays_while_dragged(lab):
    """A held assignment stays while samples are dragged, flipped and added, until it is let go."""
    lab.choose("machine", "cpm")
    lab.choose("method", "fixed")
    held = lab.state()["assignment"]
    lab.drag(7, 150, -90)
    assert lab.state()["assignment"] == held
    for key in "fn":
        lab.sample(7).focus()
        lab.page.keyboard.press(key)
        lab.ready()
    assert len(lab.state()["assignment"]) == len(lab.state()["points"]) == len(held) + 1
    assert lab.text("claim") == "optimal for this assignment"
    assert same(lab.number("primal"), solved(lab.state())["certificate"]["primal_value"], 1e-5)
    lab.write("n_faces", 2)
    assert lab.state()["method"] == "auto"
    assert "assignment" not in lab.state()


def test_files_can_be_taken_along(lab):
    """The picture is taken along as SVG and PNG, in the colours of the page, and the samples as a file."""
    lab.choose("kernel", "rbf")
    lab.press("share")
    lab.until("!document.querySelector('[data-name=data-file]').disabled")
    taken = {}
    for name in ("svg", "png", "data-file"):
        with lab.page.expect_download() as waiting:
            lab.page.locator(f"dialog button[data-name='{name}']").click()
        taken[name] = Path(waiting.value.path()).read_bytes()
    lab.page.locator("dialog.share .close").click()
    words = taken["svg"].decode()
    assert "var(--" not in words
    assert "http" not in words.replace("http://www.w3.org/", "")
    marks = [each for each in ET.fromstring(words).iter() if each.get("fill", "").startswith("rgb")]
    assert len([each for each in marks if each.tag.endswith("path")]) >= len(lab.state()["points"])
    assert taken["png"].startswith(b"\x89PNG")
    width = int.from_bytes(taken["png"][16:20], "big")
    assert width == pytest.approx(2 * lab.page.locator("svg.plane").bounding_box()["width"], abs=2)
    assert len(taken["data-file"].splitlines()) >= len(lab.state()["points"])


def test_lab_fits_phone(browser, server):
    """On a phone, light and dark, nothing leaves the page, is faint or comes from elsewhere."""
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with LabPage(browser, server[0], **phone) as lab:
        papers = set()
        for scheme, machine in (("light", "rmm"), ("dark", "cpm")):
            lab.page.emulate_media(color_scheme=scheme)
            lab.choose("machine", machine)
            lab.page.touchscreen.tap(*lab.spot(4))
            assert lab.page.locator(".person h2").inner_text().startswith("Sample 4, class")
            lab.value("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            lab.until("document.querySelectorAll('.side').length >= 1 && !document.querySelector('.stale')")
            lab.ready()
            wide = "[document.scrollingElement.scrollWidth, innerWidth]"
            assert lab.value(wide) == [390, 390]
            assert lab.value(SPILLS) == []
            lab.press("share")
            lab.until("document.querySelector('dialog pre').textContent.length > 20")
            assert lab.value(wide) == [390, 390]
            assert lab.value("document.querySelector('dialog.share').getBoundingClientRect().right") <= 390
            lab.page.locator("dialog.share .close").click()
            assert lab.value(CONTRASTS) == []
            papers.add(lab.value("getComputedStyle(document.querySelector('.polyopt-lab')).backgroundColor"))
        assert papers == {"rgb(255, 255, 255)", "rgb(20, 24, 29)"}
        assert lab.complaints == []
        own = urlsplit(server[0]).netloc
        assert {urlsplit(url).netloc for url in lab.requests} == {own}, "nothing is loaded from elsewhere"


# Texts with less contrast to what is behind them than WCAG's level AA asks for.
CONTRASTS = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => numbers(text).slice(0, 3).map(each => each / 255)
      .map(each => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
      .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const paint = getComputedStyle(at).backgroundColor;
      if ((numbers(paint)[3] ?? 1) > 0) return paint;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const each of document.querySelectorAll('.polyopt-lab *')) {
    const own = [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !each.checkVisibility() || each.disabled || each.closest('svg, option, .stale')) continue;
    const [a, b] = [light(getComputedStyle(each).color), light(ground(each))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${each.className || each.tagName}: ${contrast.toFixed(2)}`);
  }
  return found;
})()"""


def test_keys_do_everything(lab):
    """Keys move, flip, add and delete samples and undo it, and every control has a name."""
    n = len(lab.state()["points"])
    lab.ready()
    lab.page.locator("[data-name='clear']").focus()
    for _ in range(3):  # past the plane, to the second sample
        lab.page.keyboard.press("Tab")
    label = lab.value("document.activeElement.getAttribute('aria-label')")
    assert re.match(r"Sample 1, class [+−]1, at \(.*\); decision value .*support vector", label)
    assert lab.page.locator(".person h2").inner_text().startswith("Sample 1, class")
    assert len(lab.page.locator(".person .why").inner_text()) > 20
    x, y, side = lab.state()["points"][1]
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("ArrowUp")
    moved = lab.state()["points"][1]
    assert moved[0] > x
    assert moved[1] > y
    lab.until("__lab.timings.length > 1")
    lab.page.keyboard.press("f")
    lab.ready()
    assert lab.state()["points"][1][2] == -side
    lab.page.keyboard.press("n")
    lab.ready()
    assert len(lab.state()["points"]) == n + 1
    assert lab.state()["points"][-1][2] == -side
    lab.page.keyboard.press("Delete")
    lab.ready()
    assert len(lab.state()["points"]) == n
    lab.page.keyboard.press("Control+z")
    lab.ready()
    assert len(lab.state()["points"]) == n + 1
    lab.sample(0).focus()
    lab.page.keyboard.press("Escape")
    assert lab.value("document.activeElement.dataset.name") == "closer"
    unnamed = """[...document.querySelectorAll('button, input, select, [tabindex]')].filter(each =>
        each.checkVisibility() && !each.getAttribute('aria-label') && !each.textContent.trim()
        && !each.labels?.length).map(each => each.outerHTML)"""
    assert lab.value(unnamed) == []


def test_samples_are_drawn_and_deleted(lab):
    """The tools draw, flip and delete samples; one class alone is told."""
    lab.press("clear")
    lab.ready()
    assert lab.text("primal") == "–"
    assert lab.page.locator(".trouble").is_visible()
    box = lab.page.locator(".frame").bounding_box()
    spots = {"positive": [(0.3, 0.3), (0.35, 0.5)], "negative": [(0.7, 0.4), (0.75, 0.6)]}
    for tool, places in spots.items():
        lab.page.locator(f"[data-tool='{tool}'].tool").click()
        for u, v in places:
            lab.page.mouse.click(box["x"] + u * box["width"], box["y"] + v * box["height"])
            lab.ready()
        if tool == "positive":
            assert "class" in lab.page.locator(".trouble").inner_text()
            assert lab.text("claim") == "–"
    assert [each[2] for each in lab.state()["points"]] == [1, 1, -1, -1]
    assert not lab.page.locator(".trouble").is_visible()
    assert lab.text("claim") == "optimal"
    lab.page.locator(".tool.flip").click()
    lab.page.mouse.click(*lab.spot(0))
    lab.ready()
    assert [each[2] for each in lab.state()["points"]] == [-1, 1, -1, -1]
    lab.page.locator(".tool.delete").click()
    lab.page.mouse.click(*lab.spot(0))
    lab.ready()
    assert [each[2] for each in lab.state()["points"]] == [1, -1, -1]


def test_long_search_can_be_stopped(lab):
    """A long search takes old numbers away, tells its time, and can be stopped."""
    rng = np.random.default_rng(0)  # labels by lot: nothing is proven soon
    points = rng.normal(size=(200, 2)), rng.choice([-1, 1], size=200)
    long = {**lab.first, "machine": "cpm", "method": "global", "settings": {"n_faces": 6}}
    long["points"] = [[*map(float, np.round(x, 3)), int(label)] for x, label in zip(*points, strict=True)]
    lab.follow(fragment(long))
    lab.until("document.querySelector('.polyopt-lab').classList.contains('waiting')")
    assert lab.text("claim") == "solving…"
    assert {lab.text(name) for name in ("primal", "dual", "gap")} == {"–"}, "numbers of before are taken away"
    assert lab.page.locator(".told").inner_text().endswith("s")
    lab.page.locator(".stop").click()
    lab.ready()
    assert not lab.page.locator(".progress").is_visible()
    assert lab.value("__lab.picture()?.stopped ?? true")
    assert not lab.value("document.querySelector('.polyopt-lab').classList.contains('waiting')")
    assert lab.text("claim") != "optimal"
    lab.press("undo")
    lab.ready()
    assert lab.text("claim") == "optimal"


def test_lost_connection_is_made_again(browser, server):
    """A lost connection is told and made again, and the state is kept."""
    with LabPage(browser, server[0]) as lab:
        lab.page.route_web_socket("**/ws", lambda line: lines.append((line, line.connect_to_server())))
        lines = []
        lab.page.goto("about:blank")
        lab.page.goto(server[0])
        lab.ready()
        before = lab.text("primal")
        lab.value("document.querySelector('[data-field=C] input[type=number]').value = 2")
        lab.drag(2, 40, 40)
        kept = lab.state()
        lines[0][0].close()
        lab.until("document.querySelector('.connection').checkVisibility()")
        assert "lost" in lab.page.locator(".connection").inner_text()
        lab.until("!document.querySelector('.connection').checkVisibility()")
        lab.ready()
        assert lab.state() == kept, "nothing is lost but the line"
        assert lab.text("primal") != before
        assert lab.contradictions() == []


MODEL = """async (code) => {
  const heard = {}, values = { height: 420, state: {} }, model = { sent: [], saved: 0,
    send: (message) => model.sent.push(JSON.stringify(message)),
    on: (name, callback) => { (heard[name] ??= []).push(callback); }, off() {}, get: (name) => values[name],
    set: (name, value) => { values[name] = value; }, save_changes: () => { model.saved += 1; },
    tell: (name, value) => heard[name].forEach((callback) => callback(value)) };
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const { default: widget } = await import(url);
  window.model = model;
  window.leave = await widget.render({ model, el: document.body });
}"""


def test_widget_is_the_same_lab(browser):
    """The widget is the same lab in one module, whose state goes both ways."""
    from polyopt.lab.widget import bundle, style

    context = browser.new_context(viewport={"width": 800, "height": 900}, reduced_motion="reduce")
    page, complaints, client = context.new_page(), [], Client()
    page.on("console", lambda one: complaints.append(one.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content("<!doctype html><title>a notebook</title><body></body>")
    page.add_style_tag(content=style())
    page.evaluate(MODEL, bundle())

    def talk(until):
        """Carry messages between the page and an engine until something holds."""
        for _ in range(400):
            for text in page.evaluate("model.sent.splice(0)"):
                client.engine.receive(text)
            client.engine.wait()
            told, client.received[:] = client.received[:], []
            page.evaluate("told => told.forEach(each => model.tell('msg:custom', each))", told)
            if page.evaluate(until):
                return
            page.wait_for_timeout(10)
        raise AssertionError(complaints)

    solved = "model.saved > 0 && document.querySelector('[data-name=claim]').textContent === 'optimal'"
    talk(solved)
    state = page.evaluate("model.get('state')")
    assert len(state["points"]) == page.locator(".sample").count() > 20
    assert page.locator("[data-name=claim]").inner_text() == "optimal"
    shown = page.locator("[data-name=primal]").inner_text()
    state["settings"]["C"] = 0.01
    page.evaluate(
        "state => { model.saved = 0; model.set('state', state); model.tell('change:state'); }", state
    )
    talk(f"{solved} && document.querySelector('[data-name=primal]').textContent !== '{shown}'")
    page.evaluate("leave()")
    assert page.locator(".polyopt-lab").count() == 0
    assert complaints == []
    client.engine.close()
    context.close()
