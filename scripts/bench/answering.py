"""The answers of one of `RUNTIMES` to texts: python answering.py RUNTIME FOLDER TEXTS.json OUT.json [PACKAGES]

PACKAGES is a folder with the node_modules of transformers.js, for the browser. OUT has when the first label was there,
milliseconds of each single text, the texts a second of the whole list, token ids and scores of each text, and the MiB
and versions of what must be installed, this package itself excluded.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

SINGLE, BATCH = 200, 32
LOAD = """async () => {
    const { pipeline } = await import(new URL("transformers.min.js", location.href).href);
    const classify = await pipeline("text-classification", "model", { dtype: "q8", device: "wasm" });
    window.idsOf = (text) => classify.tokenizer(text, { truncation: true, return_tensor: false }).input_ids;
    window.scoresOf = async (text) =>
        Object.fromEntries((await classify(text, { top_k: null })).map(({ label, score }) => [label, score]));
}"""
EACH = "async (texts) => { const rows = []; for (const text of texts) rows.push(await %s(text)); return rows; }"
Scores = list[dict[str, float]]
Answers = tuple[Callable[[list[str]], Scores], Callable[[list[str]], list[list[int]]], dict[str, Any]]
"""Functions from texts to their scores by label and to their token ids; of a page, times and what is installed."""


def of_kobert(folder: str, tokenizer: str | None = None, backend: str = "torch") -> Answers:
    """This package, which rounds scores to four digits."""
    import kobert_pipeline

    checkpoint = kobert_pipeline.load(folder, tokenizer, backend)
    return (
        lambda texts: [row["scores"] for row in checkpoint.predict(texts)],
        lambda texts: checkpoint.tokenizer(texts, truncation=True)["input_ids"],
        {},
    )


def of_pipeline(folder: str) -> Answers:
    """`transformers.pipeline` without trust_remote_code."""
    from transformers import pipeline

    classify: Any = pipeline("text-classification", model=folder, device="cpu", top_k=None, batch_size=BATCH)
    return (
        lambda texts: [{row["label"]: row["score"] for row in rows} for rows in classify(texts, truncation=True)],
        lambda texts: classify.tokenizer(texts, truncation=True)["input_ids"],
        {},
    )


def of_sentence_transformers(folder: str, backend: str) -> Answers:
    """A CrossEncoder, by its parts, since its `predict` takes pairs of texts."""
    from sentence_transformers import CrossEncoder

    encoder = CrossEncoder(folder, backend=backend, device="cpu")
    names = encoder.config.id2label.values()

    def scores(texts: list[str]) -> Scores:
        batches = (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))
        rows = (row for batch in batches for row in encoder(encoder.preprocess(batch))["scores"].softmax(-1).tolist())
        return [dict(zip(names, row, strict=True)) for row in rows]

    return scores, lambda texts: encoder.tokenizer(texts, truncation=True)["input_ids"], {}


def by_hand(folder: str, size: int, logits: Callable[[Any, Any], Any]) -> Answers:
    """`tokenizers`, and `logits` of the ids and masks (B, S) of batches of `size` texts."""
    import numpy as np
    from tokenizers import Tokenizer

    settings, config = (json.loads(Path(folder, name).read_text()) for name in ("tokenizer_config.json", "config.json"))
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_truncation(settings["model_max_length"])
    tokenizer.enable_padding(pad_id=config["pad_token_id"])

    def scores(texts: list[str]) -> Scores:
        rows: list[list[float]] = []
        for start in range(0, len(texts), size):
            encoded = tokenizer.encode_batch(texts[start : start + size])
            ids, mask = (np.array([getattr(row, key) for row in encoded]) for key in ("ids", "attention_mask"))
            exponents = np.exp(logits(ids, mask))
            rows += (exponents / exponents.sum(-1, keepdims=True)).tolist()
        return [dict(zip(config["id2label"].values(), row, strict=True)) for row in rows]

    return scores, lambda texts: [tokenizer.encode(text).ids for text in texts], {}


def of_onnxruntime(folder: str, file: str) -> Answers:
    """ONNX Runtime and `tokenizers`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{folder}/onnx/{file}", options)

    def logits(ids: Any, mask: Any) -> Any:
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
        return session.run(["logits"], {node.name: values[node.name] for node in session.get_inputs()})[0]

    return by_hand(folder, BATCH, logits)


def of_tract(folder: str, file: str) -> Answers:
    """tract, an ONNX runtime in Rust, and `tokenizers`, both as the wheels for Python contain them; text by text."""
    import tract

    model = tract.onnx().load(f"{folder}/onnx/{file}")
    for index in range(model.output_count()):  # their shapes have other symbols than the inputs'
        model.set_output_fact(index, None)
    runnable = model.into_model().into_runnable()
    return by_hand(folder, 1, lambda ids, mask: runnable.run([ids, mask])[0].to_numpy())


def of_browser(folder: str, packages: str) -> Answers:
    """The page of docs/browser.md in Chromium, in int8, text by text."""
    from playwright.sync_api import sync_playwright

    site, modules = Path(tempfile.mkdtemp()), Path(packages, "node_modules")
    library = modules / "@huggingface/transformers"
    runtime = [modules / f"onnxruntime-web/dist/ort-wasm-simd-threaded.{suffix}" for suffix in ("mjs", "wasm")]
    page_file = Path(__file__).parents[2] / "docs/browser/index.html"
    for file in (page_file, library / "dist/transformers.min.js", *runtime):
        shutil.copy(file, site)
    mib = sum(file.stat().st_size for file in site.iterdir()) / 2**20
    (site / "model").symlink_to(Path(folder).resolve())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = sync_playwright().start().chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page, opened = browser.new_page(), time.time()
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    page.wait_for_selector("#scores dt", timeout=120_000)
    first = time.time()
    page.evaluate(LOAD)
    return (
        lambda texts: page.evaluate(EACH % "scoresOf", texts),
        lambda texts: page.evaluate(EACH % "idsOf", texts),
        {"opened": opened, "first": first, "mib": mib, "versions": {"chromium": browser.version}},
    )


KOBERT = ("numpy", "pydantic", "PyYAML", "typer", "rich")
LIGHT, OPTIMUM = ("tokenizers", "onnxruntime"), ("sentence-transformers", "optimum-onnx", "onnxruntime")
RUNTIMES: dict[str, tuple[Callable[..., Answers], dict[str, str], tuple[str, ...]]] = {
    "transformers.pipeline": (of_pipeline, {}, ("torch", "transformers")),
    "kobert, torch": (of_kobert, {}, (*KOBERT, "torch", "transformers")),
    "kobert, torch, Kiwi": (of_kobert, {"tokenizer": "kiwi"}, (*KOBERT, "torch", "transformers", "kiwipiepy")),
    "kobert, ONNX": (of_kobert, {"backend": "onnx"}, (*KOBERT, *LIGHT)),
    "kobert, ONNX int8": (of_kobert, {"backend": "onnx-int8"}, (*KOBERT, *LIGHT)),
    "onnxruntime and tokenizers": (of_onnxruntime, {"file": "model.onnx"}, LIGHT),
    "onnxruntime and tokenizers, int8": (of_onnxruntime, {"file": "model_quantized.onnx"}, LIGHT),
    "sentence-transformers, torch": (of_sentence_transformers, {"backend": "torch"}, ("sentence-transformers",)),
    "sentence-transformers, ONNX": (of_sentence_transformers, {"backend": "onnx"}, OPTIMUM),
    "Rust: tract and tokenizers": (of_tract, {"file": "model.onnx"}, ("tract", "tokenizers")),
    "Rust: tract and tokenizers, int8": (of_tract, {"file": "model_quantized.onnx"}, ("tract", "tokenizers")),
    "Chromium, int8": (of_browser, {}, ()),
}  # fmt: skip
"""{name: its function and arguments, and the packages to install}"""


def installed(names: tuple[str, ...]) -> dict[str, Any]:
    """MiB of packages and all that they require, and the versions of those named."""
    from packaging.requirements import Requirement

    required, sizes = list(names), dict[str, int]()
    while required:
        name = required.pop().lower()
        if name not in sizes:
            package = distribution(name)
            files = [Path(str(file.locate())) for file in package.files or []]
            sizes[name] = sum(file.stat().st_size for file in files if file.is_file())
            requirements = map(Requirement, package.requires or [])
            required += [one.name for one in requirements if not one.marker or one.marker.evaluate({"extra": ""})]
    return {"mib": sum(sizes.values()) / 2**20, "versions": {name: distribution(name).version for name in names}}


def main() -> None:
    """Answer and write."""
    runtime, folder, texts_file, out, *packages = sys.argv[1:]
    texts = json.loads(Path(texts_file).read_text())
    make, options, needed = RUNTIMES[runtime]
    scores_of, ids_of, page = make(folder, *packages, **options)
    scores_of(["정말 재밌다"])
    result: dict[str, Any] = {"first": time.time()} | (page or installed(needed))
    result["single_ms"] = [1000 * timed(scores_of, [text])[0] for text in texts[:: len(texts) // SINGLE]]
    seconds, scores = timed(scores_of, texts)
    result |= {"texts_a_second": len(texts) / seconds, "scores": scores, "ids": ids_of(texts)}
    Path(out).write_text(json.dumps(result))
    os._exit(0)  # a browser and its server do not end by themselves


def timed(scores_of: Callable[[list[str]], Scores], texts: list[str]) -> tuple[float, Scores]:
    """Wall seconds, and the scores."""
    began = time.perf_counter()
    scores = scores_of(texts)
    return time.perf_counter() - began, scores


if __name__ == "__main__":
    main()
