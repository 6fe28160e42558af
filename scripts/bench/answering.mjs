// node answering.mjs PACKAGES FOLDER TEXTS.json OUT.json DTYPE: as answering.py, by transformers.js
import fs from "fs";
import path from "path";

const [packages, folder, textsFile, out, dtype] = process.argv.slice(2);
const modules = path.resolve(packages, "node_modules");
const library = path.join(modules, "@huggingface/transformers");
const { env, pipeline } = await import(path.join(library, "dist/transformers.node.mjs"));
env.allowRemoteModels = false;
env.localModelPath = path.dirname(path.resolve(folder)) + "/";
const session_options = { intraOpNumThreads: 1, interOpNumThreads: 1 };
const classify = await pipeline("text-classification", path.basename(folder), { dtype, session_options });
const scoresOf = async (texts) => {
    const rows = await classify(texts, { top_k: null });
    return rows.map((row) => Object.fromEntries(row.map(({ label, score }) => [label, score])));
};
await scoresOf(["정말 재밌다"]);
const first = Date.now() / 1000;
const texts = JSON.parse(fs.readFileSync(textsFile, "utf8"));
const single_ms = [];
for (let index = 0; index < texts.length; index += Math.floor(texts.length / 200)) {
    const began = performance.now();
    await scoresOf([texts[index]]);
    single_ms.push(performance.now() - began);
}
const began = performance.now();
const scores = [];
for (let start = 0; start < texts.length; start += 32) scores.push(...(await scoresOf(texts.slice(start, start + 32))));
const texts_a_second = (1000 * texts.length) / (performance.now() - began);
const ids = texts.map((text) => classify.tokenizer(text, { truncation: true, return_tensor: false }).input_ids);
const files = fs.readdirSync(modules, { recursive: true }).map((file) => fs.lstatSync(path.join(modules, file)));
const mib = files.reduce((bytes, file) => bytes + (file.isFile() ? file.size : 0), 0) / 2 ** 20;
const versions = { node: process.version };
fs.writeFileSync(out, JSON.stringify({ first, single_ms, texts_a_second, ids, scores, mib, versions }));
process.exit(0);
