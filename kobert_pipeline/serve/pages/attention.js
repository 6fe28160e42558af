// The tab with attention: lines between the morphemes of a text, of one layer and head.

const FAINTEST = 0.02; // lines of less opacity are not drawn
const MOST_DRAWN = 4000;
const SAID = 5; // weights in the sentence

function setUpAttention(panel) {
  for (const field of ["layer", "head", "word"]) {
    const select = make("select", { id: `attention-${field}`, lang: "ko" });
    panel.fields[field] = select;
    panel.row.append(
      make("div", {}, worded("label", field === "word" ? "chooseWord" : field, { for: select.id }), select),
    );
    select.addEventListener("change", () => (field === "word" ? panel.render() : run(panel)));
  }
  let width = 0;
  window.addEventListener("resize", () => {
    // phones report a resize whenever they hide or show their address bar
    if (panel.details.clientWidth !== width) panel.render();
    width = panel.details.clientWidth;
  });
}

/** Forget the layers and heads of a model, before another one is asked. */
function forgetAttention(panel) {
  for (const field of ["layer", "head", "word"]) panel.fields[field].replaceChildren();
  panel.row.hidden = true;
}

/** Fill a list; what was chosen stays chosen where it still exists. */
function fillSelect(select, rows, chosen) {
  const before = rows.some(([value]) => value === select.value) ? select.value : chosen;
  select.replaceChildren(...rows.map(([value, text]) => make("option", { value }, text)));
  select.value = before;
}

function showAttention({ data: [row] }, values, panel) {
  const numbers = (count) => [...Array(count).keys()].map((i) => [String(i + 1), String(i + 1)]);
  fillSelect(panel.fields.layer, numbers(row.layers), String(row.layers));
  fillSelect(panel.fields.head, [["", say("allHeads")], ...numbers(row.heads)], "");
  fillSelect(
    panel.fields.word,
    [["", say("everyWord")], ...row.units.map((unit, i) => [String(i), `${i + 1} ${unit}`])],
    "",
  );
  panel.row.hidden = false;
  const word = panel.fields.word.value === "" ? null : Number(panel.fields.word.value);
  const shown = row.weights
    .flatMap((weights, i) => weights.map((weight, j) => [i, j, weight]))
    .filter(([i]) => word === null || i === word)
    .sort((a, b) => b[2] - a[2]);
  const parts = shown.slice(0, SAID).map(([i, j, weight]) => {
    return `${word === null ? `${row.units[i]} → ` : ""}${row.units[j]} ${weight.toFixed(3)}`;
  });
  const said = word === null ? say("largest") : say("reads", { word: row.units[word] });
  const choose = (i) => {
    panel.fields.word.value = panel.fields.word.value === String(i) ? "" : String(i);
    panel.render();
  };
  const notes = [say("caveat"), ...(row.truncated ? [say("truncated")] : [])];
  return [
    `${said}: ${parts.join(", ")}`,
    picture(row.units, shown.slice(0, MOST_DRAWN), word, panel, choose),
    make("p", { class: "faint" }, notes.join(" ")),
  ];
}

/** Lines between two columns of the same words, wider and stronger for larger weights. */
function picture(units, shown, word, panel, choose) {
  const svg = find("picture").content.firstElementChild.cloneNode();
  const element = (name, attributes, text = "") => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const width = Math.max(240, Math.min(640, panel.details.clientWidth));
  const column = Math.min(180, width * 0.33);
  const [left, right, middle] = [column + 6, width - column - 6, width / 2];
  const y = (i) => 20 + 24 * i;
  const most = shown[0]?.[2] || 1;
  const paths = shown
    .filter(([, , weight]) => weight / most >= FAINTEST)
    .map(([i, j, weight]) => {
      const [from, to, part] = [y(i) - 5, y(j) - 5, weight / most];
      const d = `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`;
      return element("path", {
        d,
        "stroke-width": Math.max(0.5, 3 * part).toFixed(2),
        "stroke-opacity": part.toFixed(3),
      });
    });
  const fitting = Math.floor(column / 14); // a syllable is about as wide as the font is high
  const short = (unit) => ([...unit].length > fitting ? `${[...unit].slice(0, fitting - 1).join("")}…` : unit);
  const words = units.flatMap((unit, i) => {
    const readers = element(
      "text",
      { x: column, y: y(i), "text-anchor": "end", class: i === word ? "chosen" : "" },
      short(unit),
    );
    const read = element("text", { x: width - column, y: y(i) }, short(unit));
    for (const made of [readers, read]) made.addEventListener("click", () => choose(i));
    return [readers, read];
  });
  const height = y(units.length) - 8;
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": say("attentionPicture") };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  svg.append(...paths, ...words);
  return svg;
}
