// The page of `kobert serve`: a tab for each thing that the models answer. The key is kept in a variable alone.

const state = { language: navigator.language.startsWith("ko") ? "ko" : "en", key: null, models: [], panels: [] };
const find = (id) => document.getElementById(id);

/** A sentence in the chosen language; {name} is replaced by values[name]. */
function say(word, values = {}) {
  return WORDS[state.language][word].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** An element with attributes and children, of which strings are texts. */
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** An element whose text is a word of the page, in the chosen language. */
function worded(name, word, attributes = {}) {
  return make(name, { ...attributes, "data-word": word }, say(word));
}

function translate() {
  document.documentElement.lang = state.language;
  for (const element of document.querySelectorAll("[data-word]"))
    element.textContent = say(element.dataset.word, element.dataset);
  for (const element of document.querySelectorAll("[data-label]"))
    element.setAttribute("aria-label", say(element.dataset.label));
  for (const button of find("languages").children)
    button.setAttribute("aria-pressed", String(button.lang === state.language));
  for (const panel of state.panels) panel.render();
  showModels();
}

/** What a request ended with instead of an answer, as a word of the page. */
class Refusal extends Error {
  constructor(word, values) {
    super(word);
    Object.assign(this, { word, values });
  }
}

const REFUSALS = { 413: "large", 429: "busy", 503: "unready", 504: "slow" };

/** The answer of the server as JSON. Raises Refusal. */
async function ask(path, body, signal) {
  const headers = state.key === null ? {} : { Authorization: `Bearer ${state.key}` };
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    const response = await fetch(path, { ...sent, headers, signal, cache: "no-store" });
    if (response.ok) return await response.json();
    if (response.status === 401) {
      const word = state.key === null ? "keyHint" : "wrongKey";
      state.key = null;
      find("key").hidden = false;
      find("key-value").focus();
      throw new Refusal(word);
    }
    const message = (await response.json().catch(() => ({}))).error?.message ?? String(response.status);
    const word = REFUSALS[response.status] ?? (response.status < 500 ? "refused" : "failed");
    throw new Refusal(word, { message, seconds: response.headers.get("Retry-After") ?? "1" });
  } catch (error) {
    if (error instanceof Refusal || error.name === "AbortError") throw error;
    throw new Refusal("unreachable");
  }
}

/** The panel of a tab, whose models are those that answer its path; null where none does. */
function panelOf(name) {
  const models = state.models.filter((model) => model.endpoints.includes(`/v1/${name}`));
  if (!models.length) return null;
  const tab = TABS[name];
  const panel = { name, tab, models, fields: {}, render() {} };
  panel.form = make("form", { novalidate: "" });
  panel.facts = make("p", { class: "faint" });
  panel.examples = make("ul", { class: "examples", "data-label": "examples" });
  panel.chosen = make("select", { id: `${name}-model` });
  panel.chosen.append(...panel.models.map(({ id }) => make("option", { value: id }, id)));
  const choice = make(
    "div",
    { class: "row" },
    make("div", {}, worded("label", "model", { for: panel.chosen.id }), panel.chosen),
  );
  choice.hidden = panel.models.length < 2;
  panel.form.append(choice, panel.facts, panel.examples);
  for (const [field, element] of tab.fields)
    addField(panel, field, make(element, { id: `${name}-${field}`, lang: "ko", spellcheck: "false" }));
  panel.row = make("div", { class: "row" });
  for (const [field, words] of Object.entries(tab.choices ?? {})) {
    const select = make(
      "select",
      { id: `${name}-${field}` },
      ...words.map((word) => worded("option", word, { value: word })),
    );
    panel.fields[field] = select;
    panel.row.append(make("div", {}, worded("label", field, { for: select.id }), select));
  }
  panel.said = make("p", { class: "said", "aria-live": "polite" });
  panel.details = make("div", { class: "details" });
  panel.result = make("section", { class: "result", "data-label": "result" }, panel.said, panel.details);
  panel.form.append(
    panel.row,
    make(
      "div",
      { class: "row centred" },
      worded("button", "submit", { class: "submit" }),
      worded("span", "hint", { class: "faint" }),
    ),
  );
  panel.element = make(
    "div",
    { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, tabindex: "0" },
    panel.form,
    panel.result,
  );
  tab.setUp?.(panel);
  listen(panel);
  chooseModel(panel);
  return panel;
}

function addField(panel, field, element) {
  const label = worded("label", panel.name === "fill-mask" ? "masked" : field, { for: element.id });
  panel.fields[field] = element;
  panel.form.append(label, element);
  if (panel.name !== "fill-mask") return;
  panel.insert = worded("button", "insertMask", { type: "button" });
  panel.insert.addEventListener("click", () => {
    element.setRangeText(modelOf(panel).mask_token, element.selectionStart, element.selectionEnd, "end");
    element.focus();
  });
  panel.form.append(make("div", { class: "row" }, panel.insert));
}

const modelOf = (panel) => panel.models.find((model) => model.id === panel.chosen.value);

function listen(panel) {
  panel.form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(panel);
  });
  panel.form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(panel);
  });
  panel.chosen.addEventListener("change", () => chooseModel(panel));
}

/** Show what the chosen model is, its examples, and the fields that it needs. */
function chooseModel(panel) {
  const model = modelOf(panel);
  panel.facts.textContent = [model.id, ...scoreTexts(model)].join(" · ");
  const mask = model.mask_token ?? "[MASK]";
  for (const element of panel.form.querySelectorAll("[data-word=masked], [data-word=insertMask]")) {
    element.dataset.mask = mask;
    element.textContent = say(element.dataset.word, { mask });
  }
  if (panel.fields.textPair) {
    for (const element of [panel.fields.textPair, panel.form.querySelector(`[for=${panel.fields.textPair.id}]`)])
      element.hidden = !model.paired;
  }
  const known = EXAMPLES[panel.name === "classify" && model.paired ? "pairs" : panel.name];
  const examples = panel.name === "classify" && model.example ? [{ text: model.example }] : known;
  const items = examples.map((example) => {
    const button = make(
      "button",
      { type: "button", lang: "ko" },
      (example.question ?? example.query ?? example.text).replace("[MASK]", mask),
    );
    button.addEventListener("click", () => {
      for (const [field, text] of Object.entries(example)) panel.fields[field].value = text.replace("[MASK]", mask);
      run(panel);
    });
    return make("li", {}, button);
  });
  panel.examples.replaceChildren(...items);
  panel.asked?.abort();
  panel.result.removeAttribute("aria-busy");
  panel.tab.forget?.(panel);
  panel.render = () => {};
  panel.said.textContent = "";
  panel.details.replaceChildren();
}

/** The scores of a model, a text for each data set. */
function scoreTexts({ scores }) {
  return [...new Set(scores.map((score) => score.dataset))].map((dataset) => {
    const own = scores.filter((score) => score.dataset === dataset);
    return `${dataset}: ${own.map(({ metric, value }) => `${metric} ${value}`).join(", ")}`;
  });
}

/** Ask the server, and show its answer or why there is none. */
async function run(panel) {
  const model = modelOf(panel);
  const values = Object.fromEntries(Object.entries(panel.fields).map(([field, element]) => [field, element.value]));
  panel.asked?.abort();
  const asked = new AbortController();
  panel.asked = asked;
  let show, wrong;
  try {
    refuseEmpty(panel, model);
    panel.result.setAttribute("aria-busy", "true");
    const answer = await ask(`v1/${panel.name}`, { model: model.id, ...panel.tab.body(values, model) }, asked.signal);
    show = () => panel.tab.show(answer, values, panel);
  } catch (error) {
    if (asked.signal.aborted) return;
    if (!(error instanceof Refusal)) throw error;
    wrong = true;
    show = () => [say(error.word, error.values)];
  }
  panel.result.removeAttribute("aria-busy");
  panel.said.classList.toggle("wrong", wrong === true);
  panel.render = () => {
    const [said, ...elements] = show();
    panel.said.textContent = said;
    panel.details.replaceChildren(...elements);
  };
  panel.render();
}

/** Raise Refusal for a field without text, or a text without the token to fill. */
function refuseEmpty(panel, { mask_token: mask }) {
  const needed = panel.tab.fields.map(([field]) => panel.fields[field]).filter((element) => !element.hidden);
  const empty = needed.find((element) => element.value.trim() === "");
  empty?.focus();
  if (empty) throw new Refusal("empty");
  if (panel.name === "fill-mask" && !needed[0].value.includes(mask)) throw new Refusal("noMask", { mask });
}

/** Show a tab, and its panel alone. */
function open(name) {
  for (const panel of state.panels) {
    const isOpen = panel.name === name;
    panel.element.hidden = !isOpen;
    panel.button.setAttribute("aria-selected", String(isOpen));
    panel.button.tabIndex = isOpen ? 0 : -1;
    if (isOpen) panel.render(); // what was drawn while it was hidden had no width
  }
  history.replaceState(null, "", `#${name}`);
}

/** The buttons of the tabs; arrows, Home and End go from one to the next. */
function addTabs() {
  find("tabs").setAttribute("data-label", "tabs");
  for (const panel of state.panels) {
    const attributes = { type: "button", role: "tab", id: `tab-${panel.name}`, "aria-controls": panel.element.id };
    panel.button = worded("button", panel.name, attributes);
    panel.button.addEventListener("click", () => open(panel.name));
    find("tabs").append(panel.button);
    find("panels").append(panel.element);
  }
  find("tabs").addEventListener("keydown", (event) => {
    const [count, now] = [state.panels.length, state.panels.findIndex((panel) => !panel.element.hidden)];
    const next = { ArrowRight: (now + 1) % count, ArrowLeft: (now + count - 1) % count, Home: 0, End: count - 1 }[
      event.key
    ];
    if (next === undefined) return;
    event.preventDefault();
    open(state.panels[next].name);
    state.panels[next].button.focus();
  });
}

/** The table of all models, what each answers, and how good it is. */
function showModels() {
  const rows = state.models.map((model) => {
    const names = Object.keys(TABS).filter((name) => model.endpoints.includes(`/v1/${name}`));
    const cells = [model.id, names.map((name) => say(name)).join(", "), scoreTexts(model).join("; ")];
    return make("tr", {}, ...cells.map((text) => make("td", {}, text)));
  });
  find("models").hidden = rows.length === 0;
  find("models")
    .querySelector("tbody")
    .replaceChildren(...rows);
}

/** Ask which models there are, until they are loaded, and build the tabs. */
async function start() {
  const status = find("status");
  status.dataset.word = "loading";
  status.textContent = say("loading");
  try {
    state.models = (await ask("v1/models")).data;
  } catch (error) {
    if (error.word === "unready") setTimeout(start, 1000);
    else if (error.word === "keyHint") hideStatus();
    else status.textContent = say((status.dataset.word = error.word), error.values);
    return;
  }
  hideStatus();
  if (state.panels.length) return;
  state.panels = Object.keys(TABS)
    .map(panelOf)
    .filter((panel) => panel !== null);
  addTabs();
  translate();
  const wanted = state.panels.find((panel) => `#${panel.name}` === location.hash) ?? state.panels[0];
  open(wanted.name);
}

function hideStatus() {
  delete find("status").dataset.word;
  find("status").textContent = "";
}

find("key").addEventListener("submit", (event) => {
  event.preventDefault();
  state.key = find("key-value").value;
  find("key-value").value = "";
  find("key").hidden = true;
  start();
});
for (const button of find("languages").children) {
  button.addEventListener("click", () => {
    state.language = button.lang;
    translate();
  });
}
translate();
start();
