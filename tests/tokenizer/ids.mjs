// node ids.mjs PACKAGES FOLDER TEXTS.json IDS.json: the ids that transformers.js gives texts and pairs of texts
import fs from "fs";
import path from "path";

const [packages, folder, texts, ids] = process.argv.slice(2);
const module = path.join(packages, "node_modules/@huggingface/transformers/dist/transformers.node.mjs");
const { AutoTokenizer, env } = await import(module);
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder) + "/";
const tokenizer = await AutoTokenizer.from_pretrained(path.basename(folder));
const encoded = JSON.parse(fs.readFileSync(texts, "utf8")).map(([text, pair]) =>
    Array.from(tokenizer.encode(text, { text_pair: pair }))
);
fs.writeFileSync(ids, JSON.stringify(encoded));
