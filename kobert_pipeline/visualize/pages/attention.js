"use strict";
// Attention of one text: lines between words, or a matrix. `data` is described in attention_page.py.

const SCALE = 65535; // weights are whole numbers of 1 / 65535
const SHOWN = 10; // words named in the sentence below the controls
const FAINTEST = 0.01; // lines and cells of less opacity are not drawn
const MOST_DRAWN = 20000; // of more, the largest: browsers become slow

/** The weights as numbers from 0 to SCALE, in one array (layers * heads * S * S). */
function decode(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Uint16Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true));
}

/** The weights between tokens (S * S) of a layer and a head; of the mean over all of them with "mean". */
function tokenWeights(weights, [layers, heads, size], layer, head) {
  const sum = new Float64Array(size * size);
  const every = (count, chosen) => (chosen === "mean" ? [...Array(count).keys()] : [Number(chosen)]);
  const chosen = every(layers, layer).flatMap((i) => every(heads, head).map((j) => i * heads + j));
  for (const matrix of chosen) {
    for (let i = 0; i < sum.length; i++) sum[i] += weights[matrix * sum.length + i];
  }
  return sum.map((value) => value / (SCALE * chosen.length));
}

/** The weights between units, one array per row: columns of a unit's tokens are summed and rows averaged, and a token
 * of several units is split evenly among them. */
function sumToUnits(weights, size, units) {
  const counts = new Float64Array(size);
  for (const unit of units) for (const token of unit.tokens) counts[token] += 1;
  return units.map((row) => {
    const share = row.tokens.reduce((sum, token) => sum + 1 / counts[token], 0);
    const read = new Float64Array(size); // what the unit reads from each token
    for (const token of row.tokens) {
      for (let i = 0; i < size; i++) read[i] += weights[token * size + i] / counts[token] / share;
    }
    return Float64Array.from(units, (column) => column.tokens.reduce((sum, i) => sum + read[i] / counts[i], 0));
  });
}

/** The weights [[row, column, weight], ...] that pass a test of row and column, the largest MOST_DRAWN of them. */
function select(rows, passes) {
  const found = [];
  rows.forEach((row, i) => {
    row.forEach((weight, j) => {
      if (passes(i, j)) found.push([i, j, weight]);
    });
  });
  return found.length > MOST_DRAWN ? found.sort((a, b) => b[2] - a[2]).slice(0, MOST_DRAWN) : found;
}

/** The largest weight, 1 where all are zero. */
function largest(weights) {
  return weights.reduce((found, [, , weight]) => Math.max(found, weight), 0) || 1;
}

/** `label` cut to `count` characters. */
function shorten(label, count) {
  const characters = [...label];
  return characters.length <= count ? label : characters.slice(0, count - 1).join("") + "…";
}

function start(data) {
  const find = (id) => document.getElementById(id);
  const picture = find("picture");
  const controls = Object.fromEntries(
    ["view", "unit", "layer", "head", "word", "direction"].map((id) => [id, find(id)]),
  );
  const all = decode(data.weights);
  let units, rows, drawnWidth;

  const element = (name, attributes, text) => {
    const made = document.createElementNS(picture.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const chosen = () => (controls.word.value === "" ? null : Number(controls.word.value));
  const isFrom = () => controls.direction.value === "from";
  const isShown = (i, j) => chosen() === null || (isFrom() ? i : j) === chosen();

  /** Fill the list of words, and compute their weights. */
  function load() {
    const before = controls.word.value;
    const isOther = units !== data.units[controls.unit.value];
    units = data.units[controls.unit.value];
    rows = sumToUnits(tokenWeights(all, data.shape, controls.layer.value, controls.head.value), data.shape[2], units);
    if (isOther) {
      const named = units.map((unit, i) => {
        const option = document.createElement("option");
        option.value = String(i);
        option.textContent = `${i + 1} ${unit.label}`;
        return option;
      });
      const every = document.createElement("option");
      every.value = "";
      every.textContent = "all";
      controls.word.replaceChildren(every, ...named);
      controls.word.value = "";
    } else {
      controls.word.value = before;
    }
    draw();
  }

  function choose(index, direction) {
    const again = chosen() === index && controls.direction.value === direction;
    controls.word.value = again ? "" : String(index);
    controls.direction.value = direction;
    draw();
  }

  function draw() {
    if (controls.view.value === "lines") drawLines();
    else drawMatrix();
    say();
  }

  function resize(width, height, children) {
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(...children);
  }

  /** A word with all about it, which a click or tap chooses. */
  function word(unit, attributes, count, index, direction) {
    const isChosen = chosen() === index && controls.direction.value === direction;
    const made = element("text", { ...attributes, class: isChosen ? "word chosen" : "word" }, shorten(unit.label, count));
    made.append(element("title", {}, `${unit.label}: ${unit.detail}`));
    made.addEventListener("click", () => choose(index, direction));
    return made;
  }

  function drawLines() {
    drawnWidth = find("scroll").clientWidth;
    const width = Math.max(300, drawnWidth - 2);
    const column = Math.min(200, width * 0.34);
    const places = [];
    let y = 20;
    units.forEach((unit, i) => {
      if (i && unit.side === 1 && units[i - 1].side !== 1) y += 14; // the second text of a pair
      places.push(y);
      y += 24;
    });
    const shown = select(rows, isShown);
    const most = largest(shown);
    const [left, right] = [column + 6, width - column - 6];
    const middle = (left + right) / 2;
    const lines = shown
      .filter(([, , weight]) => weight / most >= FAINTEST)
      .map(([i, j, weight]) => {
        const [from, to] = [places[i] - 5, places[j] - 5];
        const d = `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`;
        // opacity alone shows little where weights are much alike
        const thickness = Math.max(0.5, (3 * weight) / most).toFixed(2);
        return element("path", { d, "stroke-width": thickness, "stroke-opacity": (weight / most).toFixed(3) });
      });
    const count = Math.floor(column / 14); // a syllable is about as wide as the font is high
    const words = units.flatMap((unit, i) => [
      word(unit, { x: column, y: places[i], "text-anchor": "end" }, count, i, "from"),
      word(unit, { x: width - column, y: places[i] }, count, i, "to"),
    ]);
    resize(width, y, [...lines, ...words]);
    picture.setAttribute("aria-label", "Lines from the words that read, left, to those that are read, right");
  }

  function drawMatrix() {
    drawnWidth = find("scroll").clientWidth;
    const margin = 12 + 14 * Math.min(7, Math.max(...units.map((unit) => [...unit.label].length)));
    const size = Math.max(20, Math.min(36, Math.floor((drawnWidth - margin - 4) / units.length)));
    const shown = select(rows, () => true);
    const most = largest(shown);
    const cells = shown
      .filter(([, , weight]) => weight / most >= FAINTEST)
      .map(([i, j, weight]) => {
        const place = { x: margin + j * size, y: margin + i * size, width: size - 1, height: size - 1 };
        return element("rect", { ...place, "fill-opacity": (weight / most).toFixed(3) });
      });
    const words = units.flatMap((unit, i) => {
      const [x, y] = [margin + i * size + size / 2 + 5, margin - 6];
      return [
        word(unit, { x: margin - 6, y: x, "text-anchor": "end" }, 7, i, "from"),
        word(unit, { x, y, transform: `rotate(-90 ${x} ${y})` }, 7, i, "to"),
      ];
    });
    const side = margin + units.length * size;
    const frame = chosen() === null ? [] : [element("rect", { class: "frame", ...frameOf(margin, side, size) })];
    resize(side + 4, side + 4, [...cells, ...frame, ...words]);
    picture.setAttribute("aria-label", "Matrix: rows read from columns");
  }

  /** The place of the row or column of the chosen word. */
  function frameOf(margin, side, size) {
    const [place, length] = [margin + chosen() * size - 0.5, side - margin];
    if (isFrom()) return { x: margin, y: place, width: length, height: size };
    return { x: place, y: margin, width: size, height: length };
  }

  /** The largest weights of the chosen word, or of all, in words. */
  function say() {
    const index = chosen();
    const ordered = select(rows, isShown).sort((a, b) => b[2] - a[2]);
    const parts = ordered.slice(0, SHOWN).map(([i, j, weight]) => {
      if (index === null) return `${units[i].label} → ${units[j].label} ${weight.toFixed(3)}`;
      return `${units[isFrom() ? j : i].label} ${weight.toFixed(3)}`;
    });
    const said = index === null ? "Largest weights" : `${units[index].label} ${isFrom() ? "reads from" : "is read by"}`;
    find("said").textContent = `${said}: ${parts.join(", ")}`;
  }

  for (const id of ["unit", "layer", "head"]) controls[id].addEventListener("change", load);
  for (const id of ["view", "word", "direction"]) controls[id].addEventListener("change", draw);
  window.addEventListener("resize", () => {
    // phones report a resize whenever they hide or show their address bar
    if (find("scroll").clientWidth !== drawnWidth) draw();
  });
  load();
}

if (typeof document !== "undefined") start(JSON.parse(document.getElementById("data").textContent));
