// Runs the script of a page in as much of a document as our pages use, so that it is tested without a browser.
// node document.js PAGE '[["layer", "0"], ["word", "2"]]': prints the picture at first and after each control is set.
const fs = require("fs");
const vm = require("vm");

class Element {
  constructor(name) {
    Object.assign(this, { name, attributes: {}, children: [], listeners: {}, style: {}, own: "", value: "" });
    this.clientWidth = 360; // a phone
    this.namespaceURI = "svg";
  }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  append(...children) { this.children.push(...children); for (const child of children) if (child.name) child.parentNode = this; }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  addEventListener(event, listener) { (this.listeners[event] ??= []).push(listener); }
  dispatch(event) { for (const listener of this.listeners[event] ?? []) listener({ target: this }); }
  set textContent(text) { this.own = text; }
  get textContent() { return this.own + this.children.map((child) => child.textContent ?? child).join(""); }
}

const html = fs.readFileSync(process.argv[2], "utf8");
const [, data, script] = html.match(/<script type="application\/json" id="data">(.*?)<\/script>\s*<script>(.*?)<\/script>/s);
const elements = {};
for (const [tag, name, id] of html.matchAll(/<(\w+)[^>]* id="(\w+)"[^>]*>/g)) {
  elements[id] = new Element(name);
  elements[id].parentNode = new Element("main");
  const inner = html.slice(html.indexOf(tag)).split(`</${name}>`)[0];
  const option = inner.match(/value="([^"]*)" selected/) ?? inner.match(/<option value="([^"]*)"/) ?? tag.match(/ value="([^"]*)"/);
  elements[id].value = option ? option[1] : "";
}
elements.data.own = data;
const context = {
  document: {
    getElementById: (id) => elements[id] ?? null,
    createElement: (name) => new Element(name),
    createElementNS: (namespace, name) => new Element(name),
  },
  window: { addEventListener() {}, innerHeight: 600 },
  atob: (text) => Buffer.from(text, "base64").toString("latin1"),
};
vm.createContext(context);
vm.runInContext(script, context);

const tree = ({ name, attributes, own, children }) =>
  ({ name, ...attributes, text: own, children: children.filter((child) => child.name).map(tree) });
const state = () => ({ said: elements.said.textContent, picture: tree(elements.picture).children, controls:
  Object.fromEntries(Object.entries(elements).map(([id, element]) => [id, element.value])) });
const states = [state()];
for (const [id, value] of JSON.parse(process.argv[3] ?? "[]")) {
  if (id === "click") {
    elements.picture.children.filter((child) => child.listeners.click)[value].dispatch("click");
  } else {
    elements[id].value = value;
    elements[id].dispatch("change");
    elements[id].dispatch("input");
  }
  states.push(state());
}
console.log(JSON.stringify(states));
