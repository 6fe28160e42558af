"""The house rules that decay unless a test enforces them: who imports whom, where torch is not imported, sizes,
docstrings."""

import ast
import functools
import graphlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "kobert_pipeline"
REPO = PACKAGE.parent

GROUND = "errors files markdown progress config.options distributed"
ROOMS = {
    # room        may import from (besides itself and third parties); no row names a row below it
    "errors":     "",
    "files":      "errors",
    "markdown":   "",
    "progress":   "",
    "distributed": "errors",
    "config":     "errors",
    "download":   f"{GROUND}",
    "morphemes":  "",
    "tables":     f"{GROUND} download.sources",
    "corpus":     f"{GROUND} download.sources morphemes tables",
    "analysis":   f"{GROUND} morphemes tables corpus",
    "tokenizer":  f"{GROUND} download.sources morphemes tables corpus analysis",
    "shards":     f"{GROUND} morphemes corpus analysis tokenizer",
    "questions":  f"{GROUND} morphemes corpus",
    "features":   f"{GROUND} morphemes tables corpus tokenizer questions",
    "training":   f"{GROUND}",
    "checkpoint": f"{GROUND} morphemes tokenizer training",
    "pretrain":   f"{GROUND} morphemes tokenizer shards training checkpoint",
    "finetune":   f"{GROUND} tokenizer shards questions features training",
    "publish":    f"{GROUND} morphemes tokenizer shards questions features training checkpoint finetune",
    "runs":       f"{GROUND} features.metrics",
    "evaluation": f"{GROUND} tables tokenizer features training finetune",
    "inference":  f"{GROUND} config.recipe_file morphemes tables tokenizer features training checkpoint "
                  "finetune runs.manifest evaluation questions.bm25",
    "visualize":  f"{GROUND} morphemes tokenizer training checkpoint finetune inference "
                  "questions.exact_match questions.pos_feature features.rows",
    "serve":      f"{GROUND} morphemes.normalization checkpoint features inference visualize",
    "pipeline":   f"{GROUND} config download.sources tables corpus analysis tokenizer shards features training "
                  "checkpoint pretrain finetune publish runs inference evaluation",
    "cli":        f"{GROUND} config download tables questions.bm25 features.metrics pretrain publish runs inference "
                  "evaluation visualize serve pipeline",
    "__main__":   "cli",
    "__init__":   "config.recipe_file distributed files progress pipeline runs inference",
}  # fmt: skip
"""The import table, lowest room first."""

LONG_FUNCTIONS = {
    "training.loop.train": "the loop, readable from top to bottom",
    "training.triton_attention.short_attention_backward": "a kernel, all of which computes with what is loaded first",
}
"""Functions of more than `LONGEST` lines, and why."""
LONGEST = 40


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def room_of(path: Path) -> str:
    return dotted(path).partition(".")[0]


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything that a module imports from the package, wherever in the file the import is."""
    inside = ["kobert_pipeline", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = inside[: len(inside) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names if is_module(f"{source}.{alias.name}"))


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


@functools.cache
def own_imports(path: Path) -> set[str]:
    """Names below kobert_pipeline that a module imports."""
    return {name.removeprefix("kobert_pipeline.") for name in imports(path) if name.startswith("kobert_pipeline.")}


def test_every_room_is_in_the_import_table() -> None:
    assert {room_of(path) for path in modules()} <= set(ROOMS)


def test_no_row_of_the_import_table_names_a_later_room() -> None:
    order = list(ROOMS)
    rows = [(room, name.partition(".")[0]) for room, names in ROOMS.items() for name in names.split()]
    upward = [(room, name) for room, name in rows if order.index(name) >= order.index(room)]
    assert not upward


def test_room_imports_only_what_the_table_allows() -> None:
    for room in ROOMS:
        found = {(dotted(path), name) for path in modules() if room_of(path) == room for name in own_imports(path)}
        row = (room, *ROOMS[room].split())
        allowed = tuple(f"{name}." for name in row)
        folders = {
            name.partition(".")[0] for name in row
        }  # `from kobert_pipeline.config import options` names the folder too
        assert not {(path, name) for path, name in found if name not in folders and not f"{name}.".startswith(allowed)}


def test_no_file_imports_itself_by_way_of_others() -> None:
    """No circle, wherever in a file the import is: those for type checkers and inside functions count, too."""
    names = {dotted(path): path for path in modules()}
    order = graphlib.TopologicalSorter({name: own_imports(path) & set(names) - {name} for name, path in names.items()})
    try:
        order.prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_only_the_room_pipeline_imports_stage_files() -> None:
    importers = {room_of(path) for path in modules() for name in own_imports(path) if name.split(".")[1:2] == ["stage"]}
    assert importers == {"pipeline"}


def test_the_top_of_the_package_has_seven_loose_files() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} == {
        "__init__.py", "__main__.py", "errors.py", "files.py", "distributed.py", "markdown.py", "progress.py",
    }  # fmt: skip


def test_morphemes_imports_only_siblings_by_one_dot_and_third_parties() -> None:
    for path in (PACKAGE / "morphemes").glob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                assert node.level in (0, 1), f"{path.name} imports with {node.level} dots"
                assert node.level == 0 or (node.module and "." not in node.module), (
                    f"{path.name}: HF copies siblings only"
                )
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not [name for name in names if name.startswith("kobert_pipeline")], path.name


def test_no_module_imports_upward_at_run_time_by_name() -> None:
    """`importlib.import_module` would slip past the table; only those that look for plug-ins may use it."""
    users = {dotted(path) for path in modules() if "import_module" in path.read_text(encoding="utf-8")}
    assert users <= {"config.options", "config.plugins", "morphemes.analyzer_loader"}


def test_no_swamp_modules() -> None:
    swamps = {"utils", "util", "helpers", "common", "misc", "base"}
    assert not [dotted(path) for path in modules() if swamps & set(dotted(path).split("."))]


def test_files_of_more_than_400_lines_say_why() -> None:
    """In their docstring, by the words "one file"."""
    texts = {dotted(path): path.read_text(encoding="utf-8") for path in modules()}
    long = {name: text for name, text in texts.items() if len(text.splitlines()) > 400}
    assert not {name for name, text in long.items() if "one file" not in (ast.get_docstring(ast.parse(text)) or "")}


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """(dotted name, node, whether it is public) of functions and methods; functions inside functions are part of their
    outer one."""

    def walk(node: ast.AST, prefix: str, public: bool) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}.{child.name}", public and not child.name.startswith("_"))
            elif isinstance(child, ast.FunctionDef):
                yield f"{prefix}.{child.name}", child, public and not child.name.startswith("_")

    return walk(tree(path), dotted(path), True)


def test_long_functions_are_the_known_ones() -> None:
    long = {
        name
        for path in modules()
        for name, node, _ in functions(path)
        if (node.end_lineno or 0) - node.lineno + 1 > LONGEST
    }  # fmt: skip
    assert long == set(LONG_FUNCTIONS)


def test_every_module_has_a_docstring() -> None:
    assert not [dotted(path) for path in modules() if not ast.get_docstring(tree(path))]


def test_every_public_class_has_a_docstring() -> None:
    classes = [
        (dotted(path), node)
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(classes) > 30
    assert not [(path, node.name) for path, node in classes if not ast.get_docstring(node)]


def test_every_public_function_has_a_docstring() -> None:
    """A body of `...` (a Protocol's) says nothing that could be documented."""
    found = [(name, node) for path in modules() for name, node, public in functions(path) if public]
    assert len(found) > 150
    stub = [ast.dump(ast.Expr(ast.Constant(...)))]
    assert not [
        name for name, node in found if not ast.get_docstring(node) and [ast.dump(line) for line in node.body] != stub
    ]


def test_no_file_names_a_machine_path_or_has_a_merge_marker() -> None:
    folders = "|".join(["home", "root", "work", "Users", "tmp"])
    pattern = re.compile(rf"(?<![\w./~}})>*-])/(?:{folders})/\w|^(?:<{{7}}|>{{7}})(?: |$)")
    found = [
        (str(path.relative_to(REPO)), line) for path in kept_files() for line in lines_of(path) if pattern.search(line)
    ]
    assert not found


def kept_files() -> Iterator[Path]:
    """Files of the repository that `.gitignore` (folders and suffixes, all it holds) does not name."""
    ignored = {line.strip().rstrip("/") for line in (REPO / ".gitignore").read_text(encoding="utf-8").splitlines()} | {
        ".git"
    }

    def kept(names: list[str]) -> list[str]:
        return sorted(name for name in names if name not in ignored and f"*{Path(name).suffix}" not in ignored)

    for folder, folders, names in os.walk(REPO):
        folders[:] = kept(folders)  # .venv has tens of thousands of files
        yield from (Path(folder, name) for name in kept(names))


def lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []


NO_TORCH = "\nassert 'torch' not in sys.modules, 'torch was imported'\nprint('without torch')"


def test_command_does_not_import_torch(fresh, repo) -> None:
    """Commands one after the other in one process; the last line names the first that imports it."""
    code = """
import sys
from kobert_pipeline.cli.main import app
for line in ["--help", "check tiny", "list", "explain korquad", "run --help"]:
    sys.argv = ["kobert", *line.split()]
    try: app(standalone_mode=False)
    except SystemExit: pass
    assert "torch" not in sys.modules, line
"""
    result = fresh(f"{code}{NO_TORCH}", cwd=repo)
    assert result.out.endswith("without torch\n"), result.err


def test_importing_every_plug_in_does_not_import_torch(fresh) -> None:
    code = (
        "import sys\nfrom kobert_pipeline.config import plugins\n"
        "found = [plugins.variants(family) for family in plugins.CONTRACTS]"
    )
    result = fresh(f"{code}\nassert sum(map(len, found)) > 8{NO_TORCH}")
    assert result.out == "without torch\n", result.err


def test_data_stages_run_without_torch(tiny, tmp_path, fresh) -> None:
    """Everything before pretrain, features included, done anew by the real pipeline; and Kiwi, apart from it, since its
    workers would load it once more."""
    code = (
        "import sys\nsys.argv = ['kobert', *sys.argv[1:]]\n"
        "from kobert_pipeline.cli.main import app\napp(standalone_mode=False)\n"
        "from kobert_pipeline.morphemes.segmenter import Segmenter\nlist(Segmenter('kiwi').segment(['글']))"
    )
    run_dir = tmp_path / "runs" / "x"
    more = ("--until", "features", "--num-workers", 1, "--set", "analysis.analyzer=whitespace")
    result = fresh(f"{code}{NO_TORCH}", "run", tiny.recipe, "--run-dir", run_dir, *more)
    assert result.out.endswith("without torch\n"), result.err
    assert (run_dir / "features" / "korquad" / "manifest.json").is_file()
