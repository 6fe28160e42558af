// What each tab asks the server, and how it shows the answer. Texts become text nodes, never HTML. Places in texts count
// characters (code points), as the server does.

/** A list of names with numbers, and a bar for each: [[name, number in words, share from 0 to 1], ...]. */
function bars(rows) {
  const items = rows.map(([name, number, part], i) => {
    const bar = make("div", { class: "bar" });
    bar.style.width = `${100 * Math.min(1, Math.max(0, part))}%`;
    const named = make(
      "div",
      { class: "named" },
      make("span", { lang: "ko" }, name),
      make("span", { class: "number" }, number),
    );
    return make(
      "li",
      i === 0 ? { class: "best" } : {},
      named,
      make("div", { class: "track", "aria-hidden": "true" }, bar),
    );
  });
  return make("ol", { class: "bars" }, ...items);
}

/** A text with marks [{start, end, classes, label}], in order; what an earlier one has is not marked again. */
function marked(text, marks) {
  const characters = [...text];
  const paragraph = make("p", { class: "text", lang: "ko" });
  let reached = 0;
  for (const { start, end, classes, label } of marks) {
    const from = Math.max(start, reached);
    if (from >= end) continue;
    const mark = make("mark", { class: classes }, characters.slice(from, end).join(""));
    if (label) mark.append(make("small", {}, label));
    paragraph.append(characters.slice(reached, from).join(""), mark);
    reached = end;
  }
  paragraph.append(characters.slice(reached).join(""));
  return paragraph;
}

const share = (value) => `${(100 * value).toFixed(1)}%`;
const sorted = (scores) => Object.entries(scores).sort((a, b) => b[1] - a[1]);
const plain = (token) => token.replace(/^[▁Ġ]/, ""); // vocabularies mark the beginnings of words
const lines = (text) => text.split("\n").filter((line) => line.trim());

/** {tab: fields [[name, element]], the request of their values, and what its answer shows: a sentence and elements}. */
const TABS = {
  classify: {
    fields: [
      ["text", "textarea"],
      ["textPair", "textarea"],
    ],
    body: ({ text, textPair }, model) => ({ input: model.paired ? { text, text_pair: textPair } : text }),
    show({ data: [row] }) {
      if (!row.scores) return [row.score == null ? say("empty") : say("score", { score: row.score.toFixed(2) })];
      const rows = sorted(row.scores).map(([label, score]) => [label, share(score), score]);
      if (row.labels) {
        const labels = row.labels.map((label) => `${label} (${share(row.scores[label])})`).join(", ");
        return [labels ? say("severalLabels", { labels }) : say("noLabel"), bars(rows)];
      }
      return [say("labelled", { label: row.label, share: share(row.scores[row.label]) }), bars(rows)];
    },
  },
  answer: {
    fields: [
      ["question", "input"],
      ["context", "textarea"],
    ],
    body: ({ question, context }) => ({ question, context }),
    show({ data: [row] }, { context }) {
      const found = row.answer === "" ? [] : [{ start: row.start, end: row.end, classes: "answer" }];
      const sure = row.probability == null ? "" : say("sure", { share: share(row.probability) });
      return [(row.answer === "" ? say("unanswered") : say("answered", row)) + sure, marked(context, found)];
    },
  },
  tag: {
    fields: [["text", "textarea"]],
    body: ({ text }) => ({ input: text }),
    show({ data: [row] }) {
      const labels = [...new Set(row.entities.map((entity) => entity.label))].sort();
      const marks = row.entities.map(({ start, end, label }) => ({
        start,
        end,
        label,
        classes: `c${labels.indexOf(label) % 8}`,
      }));
      return [say("entities", { count: row.entities.length }), marked(row.text, marks)];
    },
  },
  similar: {
    fields: [
      ["query", "input"],
      ["texts", "textarea"],
    ],
    choices: { by: ["vectors", "hybrid", "bm25"] },
    // null: vectors by the pooling that the model was trained with
    body: ({ query, texts, by }) => ({
      query,
      texts: lines(texts),
      by: by === "vectors" ? null : by,
      top_k: lines(texts).length,
    }),
    show({ data }) {
      if (!data.length) return [say("noneSimilar")];
      const most = Math.max(1, data[0].score);
      const rows = data.map(({ text, score }) => [text, score.toFixed(3), score / most]);
      return [say("ranked", data[0]), bars(rows)];
    },
  },
  "fill-mask": {
    fields: [["text", "textarea"]],
    body: ({ text }) => ({ input: text }),
    show({ data: [row] }) {
      const said = row.masks.map((tokens, i) => {
        const [token, score] = sorted(tokens)[0];
        return say("filled", { number: i + 1, token: plain(token), share: share(score) });
      });
      const lists = row.masks.map((tokens) =>
        bars(sorted(tokens).map(([token, score]) => [plain(token), share(score), score])),
      );
      return [
        said.join(" "),
        ...lists.flatMap((list, i) => (lists.length > 1 ? [make("h2", {}, `[${i + 1}]`), list] : [list])),
      ];
    },
  },
  attention: {
    fields: [["text", "textarea"]],
    setUp: setUpAttention,
    forget: forgetAttention,
    body: ({ text, layer, head }) => ({
      input: text,
      layer: layer ? Number(layer) : -1,
      head: head ? Number(head) : null,
    }),
    show: showAttention,
  },
  tokenize: {
    fields: [["text", "textarea"]],
    body: ({ text }) => ({ input: text }),
    show({ data: [row] }) {
      const spans = row.offset_mapping.map(([start, end], i) => ({ start, end, classes: `c${i % 4}` }));
      const cells = row.tokens.map((token, i) => {
        const { start, end } = spans[i];
        const place = end > start ? `${start}–${end}` : "";
        return [
          make("td", { class: "token", lang: "ko" }, token),
          make("td", { class: "number" }, String(row.input_ids[i])),
          make("td", {}, place),
        ];
      });
      const head = ["token", "id", "place"].map((word) =>
        make("th", { scope: "col", class: word === "id" ? "number" : "" }, say(word)),
      );
      const table = make(
        "table",
        {},
        make("thead", {}, make("tr", {}, ...head)),
        make("tbody", {}, ...cells.map((row) => make("tr", {}, ...row))),
      );
      const said = say("tokens", { count: row.tokens.length, characters: [...row.text].length });
      return [
        said,
        marked(row.text, spans),
        make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("result") }, table),
      ];
    },
  },
};
