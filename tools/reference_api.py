"""Pages of the Python API: what `__all__` names, with signatures and docstrings, read from the source files."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
MADE = "<!-- written by tools/reference.py from the code; do not edit -->\n\n"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def tree(module: str) -> tuple[ast.Module, tuple[str, ...]]:
    """(syntax tree, lines) of a module's source."""
    base = SOURCE.joinpath(*module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    return ast.parse(text), tuple(text.splitlines())


def assigned(module: str, variable: str) -> list[str]:
    """The names in a list of a module, such as `__all__`."""
    for node in tree(module)[0].body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == variable for t in node.targets):
            return sorted(ast.literal_eval(node.value), key=str.lower)
    raise ValueError(f"{module} has no {variable}")


def found(module: str, name: str) -> tuple[str, ast.stmt] | None:
    """(module, statement) that defines `name`, followed through imports; None for what is no class or function."""
    for node in ast.walk(tree(module)[0]):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == name and node.col_offset == 0:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module and any((a.asname or a.name) == name for a in node.names):
            if not node.module.startswith("astrarium"):
                return None
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            return found(node.module, original)
    return None


def signature(module: str, node: ast.stmt) -> str:
    """The lines of a `def` or `class` statement up to its body, without decorators' lines and the last colon; of a
    Struct its name."""
    assert isinstance(node, (*FUNCTIONS, ast.ClassDef))
    if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Struct" for base in node.bases):
        return f"class {node.name}"
    lines = tree(module)[1][node.lineno - 1:node.body[0].lineno - 1]
    text = textwrap.dedent("\n".join(lines)).rstrip()
    return text.split("  #")[0].rstrip().removesuffix(":")


def members(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Public methods and properties with a docstring."""
    for item in node.body:
        if isinstance(item, FUNCTIONS) and not item.name.startswith("_") and ast.get_docstring(item):
            yield item


def entry(module: str, name: str) -> str:
    """One name: signature, docstring, members."""
    place = found(module, name)
    if place is None:
        return ""
    where, node = place
    assert isinstance(node, (*FUNCTIONS, ast.ClassDef))
    text = f"\n### {name}\n\n```py\n{signature(where, node)}\n{columns(where, node)}```\n\n"
    if where != module:
        text += f"Defined in `{where}`.\n\n"
    text += docstring(node)
    if isinstance(node, ast.ClassDef):
        for item in members(node):
            is_property = any("property" in ast.unparse(d) for d in item.decorator_list)
            head = " ".join(signature(where, item).split()).removeprefix("def ")
            words = f"`{head.replace('(self)', '')}` (property)" if is_property else f"`{head}`"
            text += f"- {words}: {' '.join(docstring(item).split())}\n"
    return text.rstrip() + "\n"


def columns(module: str, node: ast.stmt) -> str:
    """The public fields of a Struct, as they are written there; nothing for functions and for config classes."""
    if not isinstance(node, ast.ClassDef) or not any(ast.unparse(base) == "Struct" for base in node.bases):
        return ""
    lines = tree(module)[1]
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    return "".join(line + "\n" for item in fields if not ast.unparse(item.target).startswith("_")
                   for line in lines[item.lineno - 1:item.end_lineno])


def docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """The docstring, as paragraphs."""
    text = ast.get_docstring(node) or ""
    return text.replace("<", "&lt;") + "\n\n" if text else ""


def namespaces() -> list[str]:
    """The modules whose `__all__` is public."""
    return ["astrarium", *(f"astrarium.{name}" for name in assigned("astrarium", "NAMESPACES"))]


def api_page(module: str) -> str:
    """A public module, name by name."""
    about = (ast.get_docstring(tree(module)[0]) or "").split("\n\n")[0].replace("\n", " ")
    page = f"# {module}\n\n{MADE}{about}\n"
    if module == "astrarium":
        page += ("\nConfig classes (`Design`, `Network`, `Ring` …) take the fields of [knobs](knobs.md) as arguments, "
                 "in the same order and with the same units. [Compatibility](compatibility.md) says what is public.\n")
    return page + "".join(entry(module, name) for name in assigned(module, "__all__")).rstrip() + "\n"
