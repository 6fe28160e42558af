"use strict";
// Sentence vectors in two dimensions, a layer at a time. `data` is described in embeddings_page.py.

const MARGIN = 12; // pixels around the points
const LISTED = 60; // characters of a text in the list of texts

/** The smallest and the largest of numbers. */
function range(values) {
  const both = ([least, most], value) => [Math.min(least, value), Math.max(most, value)];
  return values.reduce(both, [Infinity, -Infinity]);
}

function start(data) {
  const find = (id) => document.getElementById(id);
  const picture = find("picture");
  const [layer, word] = [find("layer"), find("word")];
  const colourOf = (i) => data.colours[data.labels === null ? 0 : data.labels[i]];
  const hidden = new Set();
  // one scale and one centre for all layers, so that a layer's spread can be compared with another's
  const [[left, right], [low, high]] = [0, 1].map((axis) => range(data.points.flat().map((point) => point[axis])));
  const reach = Math.max(right - left, high - low) || 1;

  const circles = data.texts.map((text, i) => {
    const circle = document.createElementNS(picture.namespaceURI, "circle");
    const title = document.createElementNS(picture.namespaceURI, "title");
    title.textContent = text;
    circle.append(title);
    circle.setAttribute("fill", colourOf(i));
    circle.addEventListener("click", () => {
      word.value = word.value === String(i) ? "" : String(i);
      draw();
    });
    return circle;
  });
  picture.replaceChildren(...circles);

  const option = (value, text) => {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    return made;
  };
  const named = data.texts.map((text, i) => option(String(i), `${i + 1} ${[...text].slice(0, LISTED).join("")}`));
  word.replaceChildren(option("", "none"), ...named);
  word.value = "";

  data.names.forEach((name, number) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    const swatch = document.createElement("span");
    label.className = "check";
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(number);
      else hidden.add(number);
      draw();
    });
    swatch.className = "swatch";
    swatch.style.background = data.colours[number];
    label.append(box, swatch, `${name} (${data.counts[number].toLocaleString("en")})`);
    find("labels").append(label);
  });

  function draw() {
    const number = Number(layer.value);
    const size = Math.max(260, Math.min(picture.parentNode.clientWidth, window.innerHeight * 0.8));
    const scale = (size - 2 * MARGIN) / reach;
    picture.setAttribute("width", size);
    picture.setAttribute("height", size);
    data.points[number].forEach(([x, y], i) => {
      const isChosen = word.value === String(i);
      circles[i].setAttribute("cx", (size / 2 + (x - (left + right) / 2) * scale).toFixed(1));
      circles[i].setAttribute("cy", (size / 2 - (y - (low + high) / 2) * scale).toFixed(1));
      circles[i].setAttribute("r", isChosen ? 8 : 4);
      circles[i].setAttribute("class", isChosen ? "chosen" : "");
      circles[i].setAttribute("display", data.labels !== null && hidden.has(data.labels[i]) ? "none" : "inline");
    });
    const kind = number === 0 ? "embeddings" : `layer ${number}`;
    const share = (100 * data.kept[number]).toFixed(1);
    find("named").textContent = `Layer: ${kind}, ${share}% ${data.kept_of}`;
    layer.setAttribute("aria-valuetext", kind);
    const i = word.value === "" ? null : Number(word.value);
    const label = i === null || data.labels === null ? "" : `${data.names[data.labels[i]]}: `;
    find("said").textContent = i === null ? "Choose a point or a text." : `${label}${data.texts[i]}`;
  }

  layer.addEventListener("input", draw);
  word.addEventListener("change", draw);
  window.addEventListener("resize", draw);
  draw();
}

if (typeof document !== "undefined") start(JSON.parse(document.getElementById("data").textContent));
