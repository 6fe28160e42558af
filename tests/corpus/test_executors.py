"""The same documents, morphemes, shards and features with any number of workers and on every executor; finished tasks
are not run again after a crash."""

import errno
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from kobert_pipeline.analysis.stage import AnalysisOptions
from kobert_pipeline.analysis.stage import run as analyse
from kobert_pipeline.corpus import stage
from kobert_pipeline.corpus.document import document_parts
from kobert_pipeline.corpus.executors import slurm
from kobert_pipeline.corpus.executors.local import Local
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.phases import WriteParts
from kobert_pipeline.corpus.stage import run
from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage as features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.files import files_below, matches_any
from kobert_pipeline.shards.stage import WRITES as SHARD_FILES
from kobert_pipeline.shards.stage import ShardsOptions
from kobert_pipeline.shards.stage import run as write_shards

CORPORA = Path(__file__).resolve().parents[2] / "kobert_pipeline" / "pipeline" / "recipes" / "tiny"
OPTIONS = {
    "sources": [
        {"name": "text", "path": "documents/*.txt"},
        # the last of these is no file of reviews, so that every test here also shows what is skipped
        {"name": "nsmc", "path": ["reviews_train.txt", "reviews_test.txt", "documents/news.txt"], "on_error": "skip"},
    ],
    "decontaminate": [{"name": "nsmc", "path": "reviews_test.txt"}, {"name": "squad", "path": "qa_dev.json"}],
    "part_characters": 10_000,
    "keep_dropped": True,
}


def options(**more):
    return CorpusOptions.model_validate({**OPTIONS, **more})


def content(out):
    """Every artefact, by name."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*.parquet"))
        if path.relative_to(out).parts[0] not in ("logs", "work")
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The corpus by one process."""
    out = tmp_path_factory.mktemp("plain")
    counts = run(options(executor={"name": "local", "workers": 1}), CORPORA, out)
    assert len(document_parts(out)) > 5 and counts["documents_dropped_contaminated"] > 50
    assert counts["files_skipped_columns"] == 1 and "documents/news.txt: there is no column" in counts["skipped"][0]
    return content(out), counts


def test_many_workers_make_the_same_files_and_leave_only_results_and_logs(plain, tmp_path):
    assert (run(options(executor={"name": "local", "workers": 2}), CORPORA, tmp_path), content(tmp_path))[::-1] == plain
    assert not (tmp_path / "work").exists()
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"logs", "dropped"}


def test_the_engine_is_not_part_of_what_the_corpus_is_made_from():
    first, second = options(), options(executor={"name": "slurm", "partition": "cpu"})
    assert first.dump() == second.dump() and "executor" not in first.dump()
    assert type(second.executor).__name__ == "Slurm"


def test_a_users_mistake_in_a_worker_comes_back_as_one_sentence(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"id": "1", "text": "그는 오늘도 학교에 갔다."}\n{"id": "2"}\n', encoding="utf-8"
    )
    (tmp_path / "b.txt").write_text("그는 오늘도 학교에 갔다.", encoding="utf-8")
    sources = [{"name": "text", "path": "b.txt"}, {"name": "jsonl", "path": "a.jsonl"}]
    for workers in (1, 2):
        with pytest.raises(UserError, match=r"a\.jsonl, line 2: there is no key 'text'"):
            run(
                options(sources=sources, decontaminate=[], executor={"name": "local", "workers": workers}),
                tmp_path,
                tmp_path / str(workers),
            )


def test_a_fixed_file_is_read_when_the_stage_resumes(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "그는 오늘도 학교에 갔다."}\n{"id": "2"}\n', encoding="utf-8")
    chosen = options(sources=[{"name": "jsonl", "path": "a.jsonl"}], decontaminate=[])
    with pytest.raises(UserError):
        run(chosen, tmp_path, tmp_path / "out")
    path.write_text('{"id": "1", "text": "그는 오늘도 학교에 갔다."}\n', encoding="utf-8")
    assert run(chosen, tmp_path, tmp_path / "out")["documents_kept"] == 1


SCRIPT = """
import json, sys
from pathlib import Path
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.stage import run
if __name__ == "__main__":
    data, out, options = sys.argv[1:]
    print(json.dumps(run(CorpusOptions.model_validate_json(options), Path(data), Path(out))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 8])
def test_killed_again_and_again_it_ends_with_the_same_files(plain, tmp_path, kills):
    chosen = {**OPTIONS, "executor": {"name": "local", "workers": 2}}
    command = [sys.executable, "-c", SCRIPT, str(CORPORA), str(tmp_path / "out"), json.dumps(chosen)]
    rng = random.Random(7)
    for _ in range(kills):
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            time.sleep(rng.uniform(1, 4))
            os.killpg(process.pid, signal.SIGKILL)
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert (content(tmp_path / "out"), json.loads(result.stdout)) == plain


SLOW = """
import os, signal, sys, time
from pathlib import Path
from kobert_pipeline.corpus.executors.local import Local
from kobert_pipeline.errors import UserError

def step(data, rank, tasks):
    begun = Path(sys.argv[1]) / str(rank)
    begun.with_suffix(".new").write_text(str(os.getpid()))
    begun.with_suffix(".new").rename(begun)  # whole or not there: the process may be stopped between the two
    if rank == 1 and sys.argv[2] == "fail":
        raise UserError("rank 1 fails")
    if rank:
        time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that runs in the background has it ignored
    out = Path(sys.argv[1])
    Local(workers=2).run([step], [1] * 20, out / "logs")
"""


@pytest.mark.parametrize("how", ["fail", "interrupt"])
def test_an_error_or_an_interrupt_ends_the_phase_at_once(tmp_path, how):
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "slow.py"), str(tmp_path), how]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        if how == "interrupt":
            deadline = time.monotonic() + 60
            while not all((tmp_path / name).exists() for name in ("1", "2")) and time.monotonic() < deadline:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=50)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode != 0
    assert ("rank 1 fails" if how == "fail" else "KeyboardInterrupt") in errors
    assert not (tmp_path / "9").exists()
    assert [path.name for path in (tmp_path / "logs" / "completions").iterdir()] == ["00000"]
    for begun in filter(Path.is_file, tmp_path.glob("[0-9]")):
        with pytest.raises(ProcessLookupError):
            os.kill(int(begun.read_text()), 0)


def test_tasks_that_finished_are_not_done_again(plain, tmp_path, monkeypatch):
    def full_disk(self, data, rank, tasks):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(WriteParts, "__call__", full_disk)
        with pytest.raises(OSError, match="No space left"):
            run(options(executor={"name": "local", "workers": 1}), CORPORA, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*") if path.is_file()}
    assert len(before) > 50
    with monkeypatch.context() as patch:
        patch.setattr("kobert_pipeline.corpus.stage.remove_tree", lambda *arguments: None)
        counts = run(options(), CORPORA, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (content(tmp_path), counts) == plain


SBATCH = """#!{python}
import os, re, subprocess, sys
script = sys.argv[-1]
text = open(script).read()
array = re.search(r"--array=0-([0-9]+)", text)
number = int(open({counter!r}).read() or 0) + 1 if os.path.exists({counter!r}) else 1
open({counter!r}, "w").write(str(number))
kept = {folder!r} + f"/job{{number}}.sh"
open(kept, "w").write(text)
tasks = int(array.group(1)) + 1 if array else 1
loop = "; ".join(f"SLURM_ARRAY_TASK_ID={{i}} SLURM_NODELIST=node1 bash {{kept}}" for i in range(tasks))
log = open(kept + ".out", "w")
env = os.environ | {{"RUN_OFFSET": "0"}}
child = subprocess.Popen(["bash", "-c", loop], env=env, stdout=log, stderr=subprocess.STDOUT)
open({folder!r} + f"/pid{{number}}", "w").write(str(child.pid))
print("Submitted batch job", number)
"""
SQUEUE = """#!{python}
import os, sys
job = sys.argv[sys.argv.index("--jobs") + 1]
if not os.path.exists(asked := {folder!r} + f"/asked{{job}}"):
    open(asked, "w").close()
    sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
pid = open({folder!r} + f"/pid{{job}}").read()
state = open(f"/proc/{{pid}}/stat").read().split()[2] if os.path.exists(f"/proc/{{pid}}") else "Z"
if state == "Z":
    sys.exit("slurm_load_jobs error: Invalid job id specified")
print(f"{{job}} running")
"""


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch):
    """`sbatch`, `squeue` and `srun` that run jobs on this machine, one array task after the other. The first query of
    each job fails, as while a controller restarts."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    programs = {
        "sbatch": SBATCH.format(python=sys.executable, counter=str(folder / "counter"), folder=str(folder)),
        "squeue": SQUEUE.format(python=sys.executable, folder=str(folder)),
        "scontrol": "#!/bin/bash\necho node1\n",
        "srun": '#!/bin/bash\nwhile [[ $1 == -* ]]; do if [[ $1 == -n ]]; then shift; fi; shift; done\nexec "$@"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.2)
    return folder


@pytest.mark.slow
def test_slurm_makes_the_same_files(plain, tmp_path, fake_slurm):
    executor = {"name": "slurm", "partition": "cpu", "sbatch_args": {"account": "abc"}}
    assert (run(options(executor=executor), CORPORA, tmp_path / "out"), content(tmp_path / "out"))[::-1] == plain
    script = (fake_slurm / "job1.sh").read_text()
    assert "--partition=cpu" in script and "--account=abc" in script and "--job-name=kobert-corpus" in script


def test_a_mistake_in_a_slurm_task_comes_back(tmp_path, fake_slurm):
    (tmp_path / "a.jsonl").write_text("no json\n", encoding="utf-8")
    executor = {"name": "slurm", "partition": "cpu"}
    with pytest.raises(UserError, match=r"a\.jsonl, line 1: not JSON"):
        run(
            options(sources=[{"name": "jsonl", "path": "a.jsonl"}], decontaminate=[], executor=executor),
            tmp_path,
            tmp_path / "out",
        )


def test_slurm_that_stays_silent_is_named(tmp_path, fake_slurm, monkeypatch):
    monkeypatch.setattr(slurm, "FAILED_QUERIES", 1)
    executor = {"name": "slurm", "partition": "cpu"}
    with pytest.raises(UserError, match=r"squeue does not say how job 1 stands .*Unable to contact"):
        run(options(executor=executor), CORPORA, tmp_path / "out")


def test_without_slurm_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no `sbatch` on this machine"):
        run(options(executor={"name": "slurm", "partition": "cpu"}), CORPORA, tmp_path / "out")


@pytest.mark.slow
def test_a_ray_cluster_of_two_nodes_makes_the_same_files(tmp_path):
    """Two node processes on this machine, of one core each: a task runs on either."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        executor = {"name": "ray", "address": cluster.address, "memory_gb": 0.5}
        counts = run(options(executor=executor, part_characters=40_000), CORPORA, tmp_path / "ray")
        assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert counts == run(
        options(executor={"name": "local", "workers": 1}, part_characters=40_000), CORPORA, tmp_path / "local"
    )
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_without_a_cluster_ray_says_how_to_start_one(tmp_path):
    with pytest.raises(UserError, match="ray start --head"):
        run(options(executor={"name": "ray"}), CORPORA, tmp_path)


# analysis, shards and features

QUESTIONS = {
    "task": {"name": "korquad", "stride": 8, "whole_words": True}, "train": "qa_train.json", "dev_share": 0.2,
    "max_length": 48, "plain_share": 0.4, "synthesize": {"questions": 20},
}  # fmt: skip
"""Features of all kinds of examples: of files and of the corpus, tokenized with and without the analyzer."""


def token_arrays(out):
    """Every morpheme and token that `analysed` wrote, by file."""
    patterns = ("analysis/*.parquet", "shards/*.npy", "features/*/*.npy", "features/*/*.jsonl")
    written = (path for pattern in patterns for path in sorted(out.glob(pattern)))
    return {str(path.relative_to(out)): path.read_bytes() for path in written}


def analysed(corpus, tokenizer, out, executor, num_workers=1):
    """Analyse the documents in `corpus`, and write shards and features, by an executor."""
    counts = analyse(AnalysisOptions(), corpus, CORPORA, out / "analysis", num_workers, executor)
    chosen = ShardsOptions(held_out=0.1)
    counts |= write_shards(chosen, out / "analysis", tokenizer, out / "shards", num_workers, executor)
    options = FeaturesOptions(**QUESTIONS)
    counts |= features.run(options, tokenizer, CORPORA, out / "features", corpus, num_workers, executor)
    return counts, token_arrays(out)


@pytest.fixture
def small_parts(monkeypatch):
    """Features in parts of a few examples, which the executor gets although they are few."""
    monkeypatch.setattr(features, "SMALL", 0)
    monkeypatch.setattr(features, "PART_CHARACTERS", 15_000)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A corpus of some parts."""
    out = tmp_path_factory.mktemp("parts")
    run(options(part_characters=30_000), CORPORA, out)
    assert len(document_parts(out)) > 2
    return out


@pytest.fixture(scope="module")
def by_one_process(tiny, parts, tmp_path_factory):
    """The folder of what one process makes of it, and the counts and arrays."""
    out = tmp_path_factory.mktemp("one")
    return out, analysed(parts, tiny.run_dir / "tokenizer", out, Local(workers=1))


def test_two_processes_write_the_same_shards_and_a_missing_one_again(front_end, tmp_path):
    expected = token_arrays(front_end.shards.parent)
    (tmp_path / "analysis").symlink_to(front_end.analysis)
    write = partial(write_shards, ShardsOptions(held_out=0.1), front_end.analysis, front_end.tokenizer)
    write(tmp_path / "shards", executor=Local(workers=2))
    assert token_arrays(tmp_path) == expected
    lost = sorted(tmp_path.glob("shards/train-*.ids.npy"))[1]
    lost.unlink()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("shards/train-00000.*")}
    write(tmp_path / "shards", executor=Local(workers=2))
    assert token_arrays(tmp_path) == expected
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    names = [name for name in files_below(tmp_path / "shards") if not name.endswith(".done.json")]
    assert all(matches_any(name, SHARD_FILES) for name in names)


def test_two_processes_encode_the_same_features(tiny, small_parts, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "PART_CHARACTERS", 5_000)
    reviews = FeaturesOptions(task="nsmc", train="reviews_train.txt", test="reviews_test.txt", max_length=64)
    make = partial(features.run, reviews, tiny.run_dir / "tokenizer" / "plain", CORPORA)
    counts = make(tmp_path / "two" / "features", executor=Local(workers=2))
    tasks = {path.name for path in tmp_path.glob("two/features/logs/tasks/completions/*")}
    assert len(tasks) > 3
    monkeypatch.undo()
    assert make(tmp_path / "one" / "features") == counts
    assert token_arrays(tmp_path / "one") == token_arrays(tmp_path / "two")
    assert all(matches_any(name, features.WRITES) for name in files_below(tmp_path / "two" / "features"))
    assert not (tmp_path / "two" / "features" / "work").exists()


@pytest.mark.slow
def test_slurm_analyses_shards_and_encodes_the_same(tiny, parts, by_one_process, small_parts, tmp_path, fake_slurm):
    executor = options(executor={"name": "slurm", "partition": "cpu"}).executor
    assert analysed(parts, tiny.run_dir / "tokenizer", tmp_path / "out", executor) == by_one_process[1]
    scripts = [path.read_text() for path in fake_slurm.glob("job*.sh")]
    arrays = {re.search("--job-name=(.*)", script)[1]: script for script in scripts if "executor.pik" in script}
    assert set(arrays) == {"kobert-analysis", "kobert-shards", "kobert-features"}
    assert all(re.search("--array=0-[1-9]", script) for script in arrays.values())


@pytest.mark.slow
def test_a_ray_cluster_analyses_shards_and_encodes_the_same(tiny, parts, by_one_process, small_parts, tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        executor = options(executor={"name": "ray", "address": cluster.address, "memory_gb": 0.5}).executor
        assert analysed(parts, tiny.run_dir / "tokenizer", tmp_path, executor) == by_one_process[1]
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_task_that_ended_without_a_word_is_named_with_its_log(tmp_path):
    """As one that the cluster killed."""
    lost = SimpleNamespace(run=lambda: None, get_incomplete_ranks=lambda: [3])

    class Cluster(Local):
        def build(self, steps, tasks, logs):
            return lost

    with pytest.raises(RuntimeError, match=r"task 3 of 5 did not finish; see .*task_00003\.log"):
        Cluster(name="local").run([], [1] * 5, tmp_path)


def test_parts_that_change_while_the_corpus_is_made_are_not_taken(tmp_path, monkeypatch):
    made, reviews = stage.run_phases, CorpusOptions.model_validate({"sources": OPTIONS["sources"][1:]})

    def changed(*arguments):
        made(*arguments)
        with document_parts(tmp_path / "out")[0].open("ab") as file:
            file.write(b"x")

    monkeypatch.setattr(stage, "run_phases", changed)
    with pytest.raises(UserError, match="changed while the stage ran; run the same command again"):
        run(reviews, CORPORA, tmp_path / "out")
    assert not document_parts(tmp_path / "out")
    monkeypatch.setattr(stage, "run_phases", made)
    assert run(reviews, CORPORA, tmp_path / "out")["documents_kept"]
