// The timeline on its page: canvas, controls, mouse, wheel, keys, touch, tooltip, themes and printing.

const script = document.currentScript;
const root = script ? script.closest(".timeline") : document.querySelector(".timeline:not([data-ready])");
const data = decoded(JSON.parse(root.querySelector("script[type='application/json']").textContent));
const compact = root.classList.contains("tl-compact");
const picture = new Picture(data);
root.dataset.ready = "";

function make(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

const button = (name, label, act) => {
  const found = make("button", { type: "button", title: label, "aria-label": label }, name);
  found.addEventListener("click", act);
  return found;
};

// --- Controls

const controls = make("div", { class: "tl-controls", role: "group", "aria-label": "Controls of the timeline" });
const folding = button("Unfold idle time", "Show idle time as long as it is", () => fold(folding.getAttribute("aria-pressed") !== "true"));
folding.removeAttribute("aria-label");
folding.setAttribute("aria-pressed", "false");
const taller = button("Taller lanes", "Make lanes high enough for every name; the arrow keys up and down scroll them", () => {
  const on = taller.getAttribute("aria-pressed") !== "true";
  taller.setAttribute("aria-pressed", on);
  resize();
});
taller.setAttribute("aria-pressed", "false");
taller.removeAttribute("aria-label");
controls.append(make("span", { class: "tl-group" },
  button("\u2212", "Zoom out", () => zoom(1.6)), button("+", "Zoom in", () => zoom(1 / 1.6)), button("Show all", "Show the whole run", fit)));
if (data.folds.length) controls.append(folding);
const selects = {};
if (!compact) {
  controls.append(taller);
  const filters = make("span", { class: "tl-group" });
  for (const [name, words] of [["step", data.steps], ["party", data.parties], ["type", data.types]]) {
    const select = make("select", {}, make("option", { value: -1 }, `every ${name}`));
    words.forEach((word, i) => { if (word) select.append(make("option", { value: i }, word)); });
    select.addEventListener("change", () => {
      picture.filter[name] = Number(select.value);
      picture.choose();
      stepping = null;
      resize();
    });
    selects[name] = select;
    filters.append(make("label", {}, make("span", {}, name), select));
  }
  const path = make("input", { type: "checkbox" });
  path.checked = true;
  path.addEventListener("change", () => { picture.showPath = path.checked; draw(); });
  controls.append(filters, make("label", {}, path, make("span", {}, "critical path")));
}

const canvas = make("canvas", { role: "img", "aria-label": data.said });
const over = make("canvas", { class: "tl-over", "aria-hidden": "true" });
const HELP = "Drag or arrow keys move, the wheel or + and \u2212 zoom, 0 shows all, n and p step through what happened, Enter pins.";
const view = make("div", { class: "tl-view", tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline. ${HELP}` }, canvas, over);
const tip = make("div", { class: "tl-tip", role: "status", "aria-live": "polite" });
// A browser prints a canvas that is drawn as it prints as a blank: what is printed is an image, made before.
const paper = make("img", { class: "tl-paper", alt: data.said });
const DASHES = { lost: [2, 3], again: [10, 3] };
const legend = make("p", { class: "tl-legend" });
for (const [name, text] of legends()) legend.append(make("span", {}, swatch(name), text));
const counting = make("span", {}, make("i", { class: "tl-swatch tl-cells" }), "counted: sent above the line, received below; zoom in to see messages");
legend.append(counting);
root.querySelector(".tl-place").append(controls, view, paper, tip, legend, make("p", { class: "tl-help" }, HELP));

// Of arrows the line itself, for its dashes; it is a drawing, which is printed where backgrounds are not.
function swatch(name) {
  if (!(name in DASHES)) return make("i", { class: `tl-swatch tl-${name}` });
  const place = make("span", {});
  place.innerHTML = `<svg width="30" height="10" class="tl-line tl-${name}" aria-hidden="true"><line x2="30" y1="5" y2="5" stroke-dasharray="${DASHES[name].join(" ")}"/></svg>`;
  return place.firstChild;
}

// Only what there is in this run.
function legends() {
  const { shapes, texts, copies } = data;
  const gone = (fate, i) => texts[fate] === "lost" || (texts[fate] === "dropped" && texts[copies.fact[i]] !== "copy");
  const marks = new Set(data.marks.map(mark => mark.kind));
  return [
    ["bar", "computing", data.bars.began.length], ["message", "message", data.messages.began.length],
    ["lost", "lost or dropped", copies.fate.some(gone)],
    ["again", "sent again", shapes.some(shape => shape[8])], ["gap", "waiting", data.gaps.began.length],
    ["deadline", "deadline passed", data.texts.includes("deadline")], ["band", "fault", data.bands.length],
    ["crash", "gone", marks.has("crash")], ["return", "back", marks.has("return")], ["gone", "lost to the run", marks.has("lost")],
    ["path", "critical path", data.path.began.length], ["fold", "idle, folded", data.folds.length],
  ].filter(one => one[2]);
}

// --- Drawing

let look = null, pinned = null, hovered = null, stepping = null, asked = 0, keeping = 0;

function lookOf() {
  const style = getComputedStyle(root), colour = name => style.getPropertyValue(`--tl-${name}`).trim();
  const names = ["paper", "ink", "muted", "line", "axis", "accent", "good", "bad", "warn", "again", "band", "hatch", "bar", "wait", "message", "sent", "received", "phase"];
  const found = Object.fromEntries(names.map(name => [name, colour(name)]));
  const arrow = (colour, dash = [], wide = 1) => ({ colour, dash, wide });
  found.arrows = {
    plain: arrow(found.message), second: arrow(found.message, [1, 3]), flying: arrow(found.message, [6, 3]),
    lost: arrow(found.bad, DASHES.lost, 2), dropped: arrow(found.bad, DASHES.lost, 2), again: arrow(found.again, DASHES.again, 2),
  };
  return found;
}

const PAPER = 700;  // pixels between the margins of a page

function resize() {
  const width = "print" in root.dataset ? PAPER : view.clientWidth || 600, count = Math.max(1, picture.lanes.length);
  picture.top = picture.head;
  const most = compact ? 250 - picture.top : 560, on = taller.getAttribute("aria-pressed") === "true";
  const shrunk = Math.max(6, Math.min(compact ? 24 : 34, Math.floor(most / count)));
  taller.hidden = Math.max(6, Math.floor(most / count)) >= 16;
  const tall = on && !taller.hidden ? 18 : shrunk;
  const height = picture.top + Math.min(most, picture.firstOf(tall) + (count - 1) * tall);
  const ctx = canvas.getContext("2d");
  ctx.font = SMALL;
  picture.layout(width, height, tall, text => ctx.measureText(text).width);
  paint();
}

function paint() {
  const ratio = "print" in root.dataset ? 3 : Math.max(1, window.devicePixelRatio || 1);
  look = lookOf();
  for (const one of [canvas, over]) {
    one.width = picture.width * ratio;
    one.height = picture.height * ratio;
    one.style.aspectRatio = `${picture.width} / ${picture.height}`;
    one.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  picture.draw(canvas.getContext("2d"), look);
  counting.hidden = !picture.cells;
  if (pinned) presentPinned();
  else stress();
  const [begin, end] = picture.visible;
  root.dataset.from = begin / 1e6;
  root.dataset.to = end / 1e6;
  root.dataset.drawn = picture.drawn;
  if (!("print" in root.dataset)) {
    clearTimeout(keeping);
    keeping = setTimeout(keep, 500);
  }
}

function keep() {
  clearTimeout(keeping);
  root.dataset.print = "";
  resize();
  paper.src = canvas.toDataURL();
  delete root.dataset.print;
  resize();
  clearTimeout(keeping);
}

function draw() {
  if (!asked) asked = requestAnimationFrame(() => { asked = 0; resize(); });
}

function stress() {
  const ctx = over.getContext("2d"), item = pinned || hovered;
  ctx.clearRect(0, 0, picture.width, picture.height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(picture.left, picture.top, picture.width, picture.height);
  ctx.clip();
  if (item) picture.stress(ctx, item, look);
  ctx.restore();
}

// --- Moving

function show(from, to) {
  const most = picture.axis.length, least = Math.min(most, Math.max(20, most / 1e7));
  const span = Math.min(most, Math.max(least, to - from));
  if (to - from !== span) { from = (from + to - span) / 2; }
  picture.from = Math.max(0, Math.min(from, most - span));
  picture.to = picture.from + span;
  draw();
}

function zoom(factor, x = picture.left + (picture.width - picture.left) / 2) {
  const unit = picture.from + (x - picture.left) / picture.scale;
  show(unit - (unit - picture.from) * factor, unit + (picture.to - unit) * factor);
}

function pan(pixels) { show(picture.from + pixels / picture.scale, picture.to + pixels / picture.scale); }

function fit() {
  picture.scroll = 0;
  show(0, picture.axis.length);
}

function fold(unfolded) {
  folding.setAttribute("aria-pressed", unfolded);
  picture.fold(!unfolded);
  draw();
}

function scroll(pixels) {
  const before = picture.scroll;
  picture.scroll = Math.max(0, Math.min(before + pixels, picture.most));
  if (picture.scroll !== before) draw();
  return picture.scroll !== before;
}

// --- Tooltip

const NARROW = 520;

function present(item, x, y, held = false) {
  const same = item && hovered && item.kind === hovered.kind && item.i === hovered.i;
  hovered = item;
  pinned = held ? item : null;
  tip.classList.toggle("tl-pinned", held);
  stress();
  if (!item) { tip.classList.remove("tl-shown"); return; }
  if (!same || !tip.classList.contains("tl-shown")) {
    const [title, ...lines] = described(data, item);
    tip.replaceChildren(make("b", {}, title), ...lines.map(line => make("span", {}, line)));
  }
  tip.classList.add("tl-shown");
  tip.style.width = picture.width < NARROW ? "100%" : "";
  const { offsetLeft, offsetTop } = view, wide = tip.offsetWidth, high = tip.offsetHeight;
  const right = x + 14 + wide <= picture.width ? x + 14 : Math.max(0, x - 14 - wide);
  const below = y + 14 + high <= picture.height + 60 ? y + 14 : Math.max(0, y - 14 - high);
  const under = picture.width < NARROW;  // on a telephone it would hide all: then it stands below
  tip.style.left = `${offsetLeft + (under ? 0 : right)}px`;
  tip.style.top = `${offsetTop + (under ? picture.height + 6 : below)}px`;
}

// The tooltip goes with its item, as far as that is in the picture.
function presentPinned() {
  const [x, y] = picture.place(pinned), { left, top, width, height } = picture;
  present(pinned, Math.max(left, Math.min(x, width)), Math.max(top, Math.min(y, height)), true);
}

// All that can be stepped to, in the order of time.
function items() {
  if (stepping) return stepping;
  const found = [];
  for (const kind of ["message", "bar", "gap"]) {
    const one = data[`${kind}s`];
    one.began.forEach((began, i) => { if (picture.passes(kind, i)) found.push({ kind, i, time: began }); });
  }
  data.bands.forEach((band, i) => found.push({ kind: "band", i, time: band.began }));
  data.marks.forEach((mark, i) => found.push({ kind: "mark", i, time: mark.time }));
  const rows = one => one.kind === "band" ? data.bands[one.i].lanes[0] : one.kind === "mark" ? data.marks[one.i].party : -1;
  stepping = found.filter(one => rows(one) < 0 || picture.rows[rows(one)] >= 0).sort((one, other) => one.time - other.time);
  return stepping;
}

function stepTo(way) {
  const all = items(), now = pinned || hovered;
  let place = now ? all.findIndex(one => one.kind === now.kind && one.i === now.i) : -1;
  if (place < 0) place = below(all.map(one => one.time), picture.visible[0]) - (way > 0 ? 1 : 0);
  const item = all[Math.max(0, Math.min(all.length - 1, place + way))];
  if (!item) return;
  const unit = picture.axis.at(item.time);
  if (unit < picture.from || unit > picture.to) show(unit - (picture.to - picture.from) / 2, unit + (picture.to - picture.from) / 2);
  if (asked) { cancelAnimationFrame(asked); asked = 0; resize(); }
  const lane = picture.y(picture.laneOf(item)), middle = (picture.top + picture.height) / 2;
  if (picture.rows[picture.laneOf(item)] && (lane < picture.top + picture.first || lane > picture.height)) {
    scroll(lane - middle);
    cancelAnimationFrame(asked);
    asked = 0;
    resize();
  }
  const [x, y] = picture.place(item);
  present(item, Math.max(picture.left, Math.min(x, picture.width)), y);
}

// --- Mouse, touch, wheel, keys

const touches = new Map();
let moved = 0, pageScrolled = -Infinity;
const at = event => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

view.addEventListener("pointerdown", event => {
  if (event.button) return;
  view.setPointerCapture(event.pointerId);
  touches.set(event.pointerId, at(event));
  if (touches.size === 1) moved = 0;
});

view.addEventListener("pointermove", event => {
  const [x, y] = at(event), before = touches.get(event.pointerId);
  if (!before) { if (!pinned) present(picture.find(x, y), x, y); return; }
  const others = [...touches].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
  moved += Math.hypot(x - before[0], y - before[1]);
  if (others.length) {
    const [other] = others, old = Math.abs(before[0] - other[0]), now = Math.abs(x - other[0]);
    if (old > 8 && now > 8) zoom(old / now, (x + other[0]) / 2);
  } else if (moved > 3) {
    pan(before[0] - x);
    scroll(before[1] - y);
    if (!pinned) present(null);
  }
  touches.set(event.pointerId, [x, y]);
});

view.addEventListener("pointerup", event => {
  const [x, y] = at(event);
  if (touches.delete(event.pointerId) && moved <= 3) {
    const item = picture.find(x, y);
    present(item, x, y, Boolean(item));
  }
});
view.addEventListener("pointercancel", event => touches.delete(event.pointerId));
view.addEventListener("pointerleave", () => { if (!pinned) present(null); });
view.addEventListener("dblclick", event => zoom(.4, at(event)[0]));
addEventListener("scroll", () => { pageScrolled = performance.now(); }, { passive: true });

// A page that is being scrolled goes on scrolling when the timeline gets below the mouse.
view.addEventListener("wheel", event => {
  const whole = picture.from <= 0 && picture.to >= picture.axis.length, away = event.deltaY > 0;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX);
  else if (event.shiftKey) pan(event.deltaY);
  else if ((whole && away) || performance.now() - pageScrolled < 250) return;
  else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), at(event)[0]);
  event.preventDefault();
  if (!pinned) present(null);
}, { passive: false });

view.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    ArrowLeft: () => pan(-.15 * picture.width), ArrowRight: () => pan(.15 * picture.width),
    ArrowUp: () => scroll(-3 * picture.tall), ArrowDown: () => scroll(3 * picture.tall),
    "+": () => zoom(1 / 1.6), "=": () => zoom(1 / 1.6), "-": () => zoom(1.6), 0: fit, Home: fit,
    n: () => stepTo(1), p: () => stepTo(-1),
    Enter: () => { if (hovered) { pinned = pinned ? null : hovered; tip.classList.toggle("tl-pinned", Boolean(pinned)); } },
    Escape: () => present(null),
  };
  const act = acts[event.key];
  if (act && act() !== false) event.preventDefault();
});

// --- Themes, size, paper

new ResizeObserver(draw).observe(view);
new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class", "style"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("beforeprint", () => { root.dataset.print = ""; });
addEventListener("afterprint", () => { delete root.dataset.print; });

// For who looks on: the place of a message in the window, and the picture itself.
root.timeline = {
  picture,
  place(number) {
    const box = canvas.getBoundingClientRect(), i = data.messages.place.get(number);
    const [x, y] = picture.place({ kind: "message", i });
    return [box.left + x, box.top + y];
  },
};
keep();
