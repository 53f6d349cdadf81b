"""How the code is put together: imports go down only, packages are light to import, modules stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import networkx as nx

ROOT = Path(__file__).parents[1]
PACKAGES = ("cfgen", "lightning_modules", "datamodules", "callbacks")

# from the top down; a room may import rooms of lower lines, and of its own line in one direction
LAYERS = [
    "commands cfgen.calibrate cfgen.data cfgen.verify",
    "cfgen.app",
    "cfgen.training cfgen.evaluation cfgen.study",
    "cfgen.audit",
    "cfgen.reporting cfgen.runs",
    "callbacks",
    "lightning_modules datamodules",
    "cfgen.counterfactual cfgen.figures cfgen.metrics cfgen.networks cfgen.scm cfgen.morpho cfgen.losses cfgen.checkpoints "
    "cfgen.effects cfgen.graph_check cfgen.external",
    "cfgen.contracts cfgen.attributes cfgen.batch cfgen.progress cfgen.errors cfgen.command_line cfgen.processes "
    "cfgen.lazy cfgen.io cfgen.interventions cfgen.options",
]
LEVEL = {room: -k for k, line in enumerate(LAYERS) for room in line.split()}
APART = [
    ("cfgen.training", "cfgen.evaluation"),
    ("cfgen.evaluation", "cfgen.training"),
    ("cfgen.runs", "cfgen.reporting"),
]
# a room's front door, which hands `main` over to the room's own command
FRONT_DOORS = {("cfgen.audit", "cfgen.audit.command"), ("cfgen.app", "cfgen.app.command")}
COMMANDS_IN_ROOMS = {"cfgen.audit.command", "cfgen.audit.__main__", "cfgen.app.command", "cfgen.app.__main__"}
LIGHT = ["cfgen", "cfgen.command_line", "cfgen.errors", "cfgen.audit", "cfgen.calibrate", "cfgen.evaluation"]
LIGHT += [
    "cfgen.io.classes",
    "cfgen.io.endings",
    "cfgen.io.files",
    "cfgen.data",
    "cfgen.io.writing",
    "cfgen.interventions",
    "cfgen.app",
    "cfgen.study",
    "cfgen.verify",
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


def imports() -> Iterator[Import]:
    """All imports at any depth of the code, those for annotations included."""
    for importer, path in MODULES.items():
        package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            for name in imported_names(node, package):
                yield Import(where, importer, name)


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
    """The room that a module is in; what is no room, at cfgen's top, is a command."""
    if module in COMMANDS_IN_ROOMS:
        return "commands"
    parts = module.split(".")
    name = ".".join(parts[:2]) if parts[0] == "cfgen" else parts[0]
    return name if name in LEVEL else "commands"


def test_imports_go_down_only():
    wrong = []
    for where, importer, imported in imports():
        ours, theirs = room(importer), room(imported)
        if ours == theirs or (importer, imported) in FRONT_DOORS:
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


def test_every_room_is_in_a_layer():
    """A new package inside cfgen says where it stands."""
    packages = {path.parent.name for path in (ROOT / "cfgen").glob("*/__init__.py")}
    assert {f"cfgen.{name}" for name in packages} <= LEVEL.keys()
    assert LEVEL.keys() - {"commands"} <= MODULES.keys()


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
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert not calls, "\n" + "\n".join(calls)


def test_no_module_is_over_300_lines():
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES.values()}
    long = [f"{path.relative_to(ROOT)}: {length} lines" for path, length in lengths.items() if length > 300]
    assert not long, "\n" + "\n".join(long)


def test_cfgen_has_few_modules_at_its_top():
    names = [name for name, path in MODULES.items() if path.parent == ROOT / "cfgen"]
    assert len(names) <= 20, names
