"""Training in slices of a few minutes: each goes on where the last one stopped, and ends in time.

The stages are those of `kobert pretrain` and `kobert finetune`, run as processes of their own, which get SIGTERM a
little before the end (they then save a checkpoint and exit with 75) and SIGKILL shortly after it. They need neither the
analyzer nor the corpus libraries.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from packs import RECIPE, RUN, SITE, Refused, missing

STOPPED = 75
"""More to do: the same command goes on."""
GRACE = 12.0
"""Seconds after the end of a slice when a process that has not stopped is killed; bringing the results takes a few
more."""
MACHINE, PROGRESS, LOG = "machine.json", "progress.json", "train.log"
RESULTS, MOST = "results.tar.xz", 15 * 2**20
"""What is brought back, and how large it may be."""
REPO = Path(__file__).resolve().parents[2]


def surroundings(work: Path) -> dict[str, str]:
    """The environment of the processes: the libraries from the packs, this checkout, and caches that stay from slice to
    slice."""
    paths = [str(work.absolute() / SITE), str(REPO), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "KOBERT_DATA": str(
            work.absolute()
        ),  # training reads no data but what was prepared; the option wants some folder
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(work.absolute() / "compiled"),
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",  # batches of five sizes follow one another
    }


def train(work: Path, out: Path, minutes: float, settings: list[str], margin: float) -> int:
    """One slice; 0 when all is done, 75 when there is more to do, otherwise what the process that failed said."""
    deadline = time.monotonic() + 60 * minutes
    if 60 * minutes < 2 * margin:
        raise Refused(
            f"--minutes {minutes:g} leaves nothing beside twice --margin {margin:g} (seconds); give more minutes or "
            "less margin"
        )
    if lacking := missing(work):
        raise Refused(
            f"{work} lacks {len(lacking)} files of the packs ({lacking[0]}, ...); unpack the other packs first"
        )
    if not (work / MACHINE).is_file():
        (work / MACHINE).write_text(json.dumps(machine(work), indent=1) + "\n", encoding="utf-8")
    status = 0
    for stage in ("pretrain", "finetune"):
        if deadline - time.monotonic() < 2 * margin:
            status = STOPPED  # hardly begun it would have to stop
            break
        status = _watched(work, stage, settings, deadline - margin, deadline + GRACE)
        if status:
            break
    rows = progress(work, settings)
    (work / PROGRESS).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    bring(work, out)
    for row in rows:
        print(f"{row['status']:8} {row['job']}  {row['told']}")
    if status not in (0, STOPPED):
        print(
            "".join((work / LOG).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-30:]),
            file=sys.stderr,
        )
    print(
        f"{'all is done' if not status else 'there is more to do' if status == STOPPED else 'it failed'}; results in "
        f"{out / RESULTS}"
    )
    return status


def _watched(work: Path, stage: str, settings: list[str], stop_at: float, kill_at: float) -> int:
    """Run a stage; ask it to stop at `stop_at`, or at once on Ctrl-C or SIGTERM; end it at `kill_at`."""
    command = [sys.executable, "-m", "kobert_pipeline", stage, str(work / RECIPE), "--run-dir", str(work / RUN)]
    command += [word for setting in settings for word in ("--set", setting)]
    asked = interrupted = False
    with (work / LOG).open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=surroundings(work), start_new_session=True)
        try:
            try:
                process.wait(max(stop_at - time.monotonic(), 0.1))
            except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
                asked, interrupted = True, isinstance(why, KeyboardInterrupt)
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(kill_at - time.monotonic(), 0.1))
        finally:
            _end(process)
    _drop_old_checkpoints(work)
    # one that was ended while it loaded or compiled has lost nothing but that
    ended = asked and process.returncode in (-signal.SIGTERM, -signal.SIGKILL)
    return STOPPED if ended or (interrupted and not process.returncode) else process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of it, also what a compiler has left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _drop_old_checkpoints(work: Path) -> None:
    """Checkpoints of what is finished: three times the model, each, on a disk that may be small."""
    for manifest in (work / RUN).rglob("manifest.json"):
        for path in (manifest.parent / "checkpoints").glob("step-*/*"):
            path.unlink()


def progress(work: Path, settings: list[str]) -> list[dict[str, str]]:
    """A row for each training: done with its scores, begun with its last step, or waiting."""
    sys.path[:0] = [str(work.absolute() / SITE), str(REPO)]
    from kobert_pipeline.config import recipe_file
    from kobert_pipeline.pipeline.recipe import Recipe
    from kobert_pipeline.pipeline.stages import Run, jobs

    content = Recipe.model_validate(recipe_file.load(str(work / RECIPE), settings))
    planned = jobs(content, Run("campaign", work, work / RUN))
    return [_row(job) for job in planned if job.stage in ("pretrain", "finetune")]


def _row(job: Any) -> dict[str, str]:
    log, manifest = job.folder / "logs" / "log.jsonl", job.folder / "manifest.json"
    if manifest.is_file():
        made = json.loads(manifest.read_text(encoding="utf-8"))
        told = made["counts"].get("test") or made["counts"].get("dev") or made["counts"].get("held_out_after")
        return {"job": job.title, "status": "done", "told": f"{told} in {made['seconds']:.0f} s"}
    if not job.folder.is_dir():
        return {"job": job.title, "status": "waiting", "told": ""}
    saved = max((path.name for path in (job.folder / "checkpoints").glob("step-*")), default="no checkpoint yet")
    last = log.read_text(encoding="utf-8").splitlines()[-1:] if log.is_file() else []
    return {"job": job.title, "status": "begun", "told": " ".join([saved, *last])}


def bring(work: Path, out: Path) -> Path:
    """One small archive of manifests, logs and curves: no weights, and no texts of other people."""
    out.mkdir(parents=True, exist_ok=True)
    names = ("manifest.json", "evaluations.json", "log.jsonl", "elapsed.json", "report.json")
    found = sorted(path for path in (work / RUN).rglob("*") if path.name in names and "checkpoints" not in path.parts)
    with tarfile.open(out / RESULTS, "w:xz") as tar:
        for path in found:
            _add(tar, path.relative_to(work).as_posix(), _without_texts(path))
        for name in (MACHINE, PROGRESS, LOG):
            if (work / name).is_file():  # a slice that was over before it began a stage has no log
                _add(tar, name, (work / name).read_bytes()[-(2**20) :])
    if (size := (out / RESULTS).stat().st_size) > MOST:
        raise Refused(
            f"{out / RESULTS} has {size:,} bytes, more than comes back ({MOST:,}); log less often (plan.log_every)"
        )
    return out / RESULTS


def _without_texts(path: Path) -> bytes:
    """A file as it comes back: manifests without the texts that they quote, and with the digest of what is left."""
    data = path.read_bytes()
    if path.name == "manifest.json":
        sys.path[:0] = [str(REPO)]
        from kobert_pipeline.files import digest

        content = json.loads(data)
        del content["digest"]
        content["counts"] = {name: value for name, value in content["counts"].items() if not isinstance(value, list)}
        data = json.dumps(content | {"digest": digest(content)}, ensure_ascii=False).encode()
    return data


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), int(time.time())
    tar.addfile(info, io.BytesIO(data))


def machine(work: Path) -> dict[str, Any]:
    """What the training runs on, asked of a process of its own, so that this one holds no memory of the GPU."""
    code = (
        "import json, os, platform, torch, transformers\n"
        "from kobert_pipeline.training.attention import has_varlen\n"
        "gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]\n"
        "versions = {'python': platform.python_version()}\n"
        "versions |= {one.__name__: one.__version__ for one in (torch, transformers)}\n"
        "print(json.dumps({'gpus': gpus, 'cores': os.cpu_count(), 'kernel_for_packed_sequences': has_varlen(), "
        "**versions}))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=surroundings(work)
    )
    return json.loads(told.stdout) if told.returncode == 0 else {"unknown": told.stderr[-500:]}


def bench(work: Path, out: Path, minutes: float, arguments: list[str]) -> int:
    """`scripts/bench/step` on this machine for so long at most, its JSON in `out/step.json`; 75 when it was cut
    short."""
    script = REPO / "scripts" / "bench" / "step"
    if not script.is_file():
        raise Refused(
            "there is no scripts/bench/step in this checkout, so no speed can be measured; train measures tokens a "
            "second as well"
        )
    if lacking := missing(work):
        raise Refused(
            f"{work} lacks {len(lacking)} files of the packs ({lacking[0]}, ...); unpack the other packs first"
        )
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(script), str(work / RUN), *arguments, str(out / "step.json")]
    process = subprocess.Popen(command, env=surroundings(work), start_new_session=True)
    try:
        return process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        print(f"stopped after {minutes:g} minutes; what was measured until then is in {out / 'step.json'}")
        return STOPPED
    finally:
        _end(process)
