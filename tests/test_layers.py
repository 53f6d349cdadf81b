"""How the code is put together: imports go down only, packages are light to import, modules stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from cfgen.__main__ import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = ("cfgen", "lightning_modules", "datamodules", "callbacks")

# from the top down; a room may import rooms of lower lines, and of its own line in one direction
LAYERS = [
    "cfgen.commands cfgen.api",
    "cfgen.app cfgen.data",
    "cfgen.training cfgen.evaluation",
    "cfgen.audit cfgen.study",
    "cfgen.reporting cfgen.runs",
    "callbacks",
    "lightning_modules datamodules",
    "cfgen.counterfactual cfgen.figures cfgen.metrics cfgen.networks cfgen.scm cfgen.morpho cfgen.losses cfgen.checkpoints "
    "cfgen.effects cfgen.graph_check cfgen.classifiers",
    "cfgen.contracts cfgen.attributes cfgen.batch cfgen.progress cfgen.errors cfgen.command_line cfgen.processes "
    "cfgen.lazy cfgen.io cfgen.interventions cfgen.options cfgen.image_ids",
]
LEVEL = {room: -k for k, line in enumerate(LAYERS) for room in line.split()}
APART = [
    ("cfgen.training", "cfgen.evaluation"),
    ("cfgen.evaluation", "cfgen.training"),
    ("cfgen.runs", "cfgen.reporting"),
]
LIGHT = [
    "cfgen",
    "cfgen.command_line",
    "cfgen.errors",
    "cfgen.options",
    *(f"cfgen.commands.{command}" for command in COMMANDS),
    "cfgen.audit",
    "cfgen.audit.options",
    "cfgen.evaluation",
    "cfgen.evaluation.options",
    "cfgen.io.classes",
    "cfgen.io.endings",
    "cfgen.io.files",
    "cfgen.data",
    "cfgen.io.writing",
    "cfgen.interventions",
    "cfgen.app",
    "cfgen.classifiers.spec",
    "cfgen.study",
    "cfgen.training",
    "cfgen.runs",
    "cfgen.reporting",
    "lightning_modules",
    "datamodules",
    "callbacks",
]


class Import(NamedTuple):
    """A line of code that imports a module of the project."""

    where: str
    importer: str
    imported: str


def modules() -> dict[str, Path]:
    """Every module of the project by its name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
SHIMS = [f"cfgen.{command}" for command in COMMANDS if (ROOT / "cfgen" / f"{command}.py").is_file()]  # for `python -m`


def imports() -> Iterator[Import]:
    """All imports at any depth of the code, those for annotations included."""
    for importer, path in MODULES.items():
        package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        for node in ast.walk(TREES[importer]):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            for name in imported_names(node, package):
                yield Import(where, importer, name)


def lazy_imports() -> Iterator[Import]:
    """What the `__init__` of a package imports when a name is asked for: the files that it passes to `lazy_names`."""
    for package, tree in TREES.items():
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        if not any(isinstance(function, ast.Name) and function.id == "lazy_names" for function in calls):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and f"{package}.{node.value}" in MODULES:
                where = f"{MODULES[package].relative_to(ROOT)}:{node.lineno}"
                yield Import(where, package, f"{package}.{node.value}")


def imported_names(node: ast.AST, package: str) -> Iterator[str]:
    """The project's modules that a statement imports; `from cfgen import losses` imports cfgen.losses."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        inside = [f"{base}.{alias.name}" for alias in node.names]
        names = [name if name in MODULES else base for name in inside]
    else:
        return
    yield from (name for name in names if name.split(".")[0] in PACKAGES)


def room(module: str) -> str:
    """The room that a module is in; what `python -m` runs is a command, and `cfgen` itself has the names of `cfgen.api`."""
    if module == "cfgen":
        return "cfgen.api"
    parts = module.split(".")
    if module in SHIMS or parts[-1] == "__main__":
        return "cfgen.commands"
    return ".".join(parts[:2]) if parts[0] == "cfgen" else parts[0]


def test_imports_go_down_only():
    wrong = []
    for where, importer, imported in imports():
        ours, theirs = room(importer), room(imported)
        if ours == theirs:
            continue
        if LEVEL[ours] < LEVEL[theirs] or (ours, theirs) in APART:
            wrong.append(f"{where}: {importer} ({ours}) imports {imported} ({theirs})")
    assert not wrong, "\n" + "\n".join(sorted(wrong))


def test_rooms_of_one_layer_do_not_import_each_other_in_a_circle():
    lines: dict[tuple[str, str], list[str]] = {}
    for where, importer, imported in imports():
        ours, theirs = room(importer), room(imported)
        if ours != theirs and LEVEL[ours] == LEVEL[theirs]:
            lines.setdefault((ours, theirs), []).append(f"{where}: {importer} imports {imported}")
    circles = list(nx.simple_cycles(nx.DiGraph(list(lines))))
    told = [
        line
        for circle in circles
        for edge in zip(circle, [*circle[1:], circle[0]], strict=True)
        for line in lines[edge]
    ]
    assert not circles, "\n" + "\n".join(told)


def test_modules_do_not_import_each_other_in_a_circle():
    """Imports for annotations, inside functions and by lazy packages count: inside a package, modules import from the
    module that defines a name, and not from the package."""
    lines: dict[tuple[str, str], list[str]] = {}
    for where, importer, imported in (*imports(), *lazy_imports()):
        if importer != imported:
            lines.setdefault((importer, imported), []).append(f"{where}: {importer} imports {imported}")
    graph = nx.DiGraph(list(lines))
    circles = [graph.subgraph(some) for some in nx.strongly_connected_components(graph) if len(some) > 1]
    told = [line for circle in circles for edge in circle.edges for line in lines[edge]]
    assert not circles, "\n" + "\n".join(sorted(set(told)))


def test_no_package_has_an_import_cycle():
    """Imports for type checking count too: a reader has to follow them."""
    graph = nx.DiGraph((importer, imported) for _, importer, imported in imports() if importer != imported)
    cycles = [sorted(cycle) for cycle in nx.strongly_connected_components(graph) if len(cycle) > 1]
    told = [f"{where}: {importer} imports {imported}" for where, importer, imported in imports()
            for cycle in cycles if importer in cycle and imported in cycle]  # fmt: skip
    assert not cycles, "\n" + "\n".join(told)


def test_every_room_is_in_a_layer():
    """A new package inside cfgen says where it stands."""
    packages = {path.parent.name for path in (ROOT / "cfgen").glob("*/__init__.py")}
    assert {f"cfgen.{name}" for name in packages} <= LEVEL.keys()
    assert LEVEL.keys() <= MODULES.keys()


def test_packages_are_light_to_import():
    """In a fresh interpreter none of these imports torch: `--help` is answered at once."""
    program = (
        "import importlib, sys\n"
        f"for name in {LIGHT!r}:\n"
        "    importlib.import_module(name)\n"
        "    heavy = sorted({'torch', 'pytorch_lightning', 'matplotlib'} & sys.modules.keys())\n"
        "    if heavy:\n"
        "        sys.exit(f'importing {name} imports {heavy}')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_importing_changes_nothing_outside():
    """No module calls anything when it is imported, such as a filter of warnings or a setting of a library."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for name, path in MODULES.items()
        for node in TREES[name].body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert not calls, "\n" + "\n".join(calls)


def test_no_module_is_over_300_lines():
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES.values()}
    long = [f"{path.relative_to(ROOT)}: {length} lines" for path, length in lengths.items() if length > 300]
    assert not long, "\n" + "\n".join(long)


def test_cfgen_has_few_modules_at_its_top():
    names = [name for name, path in MODULES.items() if path.parent == ROOT / "cfgen" and name not in SHIMS]
    assert len(names) <= 20, names
