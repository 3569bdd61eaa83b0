"""The operator's source as syntax trees, and the texts that its expressions can come to.

The names of modules, classes and constants on the way to a text do not matter: constants, f-strings, alternatives
(`a if x else b`) and arguments are followed across functions and modules. `*` stands for what the source does not say.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TypeAlias

UNKNOWN = "*"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
# Names whose texts are being looked for: a name that is defined by itself has none.
Visited: TypeAlias = frozenset[tuple[str, str]]
_NOTHING: frozenset[str] = frozenset()


class Module:
    """One file: its syntax tree, the parent of each node, and the meaning of its names."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            self.nodes.append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                waiting.append(child)
        self.imports = dict(self._imports())
        self.imported = {module for module, _ in self.imports.values()} | {
            f"{module}.{name}" for module, name in self.imports.values()
        }
        self._locals: dict[ast.AST, dict[str, list[ast.expr]]] = {}

    @cached_property
    def constants(self) -> dict[str, list[ast.expr]]:
        return _assigned(self.tree.body)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parent of a node, its parent, and so on."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def locals_of(self, function: Function) -> dict[str, list[ast.expr]]:
        if function not in self._locals:
            self._locals[function] = _assigned(ast.walk(function))
        return self._locals[function]

    def _imports(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """By local name: the module, and the name in it (empty: the module itself)."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    yield alias.asname or alias.name, (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        yield alias.asname, (alias.name, "")


class SourceTree:
    """Every module below the folder of a package, such as src/plimsoll."""

    def __init__(self, root: Path) -> None:
        files = {path: path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}
        self.modules = {name: Module(name, text) for path, text in files.items() if (name := _dotted(path, root))}
        self._calls: defaultdict[str, list[tuple[Module, ast.Call]]] = defaultdict(list)
        for module in self.modules.values():
            for node in module.nodes:
                if isinstance(node, ast.Call):
                    self._calls[_called(node)].append((module, node))

    def calls(self, name: str) -> list[tuple[Module, ast.Call]]:
        """Calls of whatever has this name: a function, a method or a class."""
        return self._calls.get(name, [])

    def arguments(self, callee: str, keyword: str, position: int | None = None) -> frozenset[str]:
        """The texts that an argument has in the calls of everything with this name."""
        return _union(self.texts(_argument(call, keyword, position), module) for module, call in self.calls(callee))

    def texts(self, expression: ast.expr | None, module: Module, visited: Visited = frozenset()) -> frozenset[str]:
        """Every text that an expression can come to; empty where none is known."""
        match expression:
            case ast.Constant(value=str(text)):
                return frozenset({text})
            case ast.JoinedStr(values=parts):
                return _joined([self.texts(part, module, visited) for part in parts])
            case ast.FormattedValue(value=inner) | ast.Attribute(value=inner, attr="value"):
                return self.texts(inner, module, visited)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                parts_found = [self.texts(left, module, visited), self.texts(right, module, visited)]
                return _joined(parts_found) if any(parts_found) else _NOTHING
            case ast.IfExp(body=body, orelse=other):
                return self.texts(body, module, visited) | self.texts(other, module, visited)
            case ast.BoolOp(values=values):
                return _union(self.texts(value, module, visited) for value in values)
            case ast.Name():
                return self._name(expression, module, visited)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                return self._attribute(owner, name, module, visited)
        return _NOTHING

    def _name(self, name: ast.Name, module: Module, visited: Visited) -> frozenset[str]:
        for scope in module.around(name):
            if isinstance(scope, Comprehension):
                values = _assigned(scope.generators).get(name.id)
            elif isinstance(scope, Function):
                if name.id in {argument.arg for argument in _arguments(scope)}:
                    return self._parameter(scope, name.id, module, visited)
                values = module.locals_of(scope).get(name.id)
            else:
                continue
            if values:
                here = (f"{module.name}:{getattr(scope, 'lineno', 0)}", name.id)
                return self._any_of(values, module, visited, here)
        return self._constant(module, name.id, visited)

    def _constant(self, module: Module, name: str, visited: Visited) -> frozenset[str]:
        if values := module.constants.get(name):
            return self._any_of(values, module, visited, (module.name, name))
        where, original = module.imports.get(name, ("", ""))
        elsewhere = self.modules.get(where)
        return self._constant(elsewhere, original, visited) if elsewhere is not None and original else _NOTHING

    def _any_of(
        self, values: Iterable[ast.expr], module: Module, visited: Visited, name: tuple[str, str]
    ) -> frozenset[str]:
        if name in visited:
            return _NOTHING
        return _union(self.texts(value, module, visited | {name}) for value in values)

    def _attribute(self, owner: str, name: str, module: Module, visited: Visited) -> frozenset[str]:
        """`module.NAME`, a member of a class, or a field of a constant (`DENIED = Reason("Denied", …)`, `DENIED.code`)."""
        where, original = module.imports.get(owner, (module.name, owner))
        if (whole := self.modules.get(f"{where}.{original}" if original else where)) is not None:
            return self._constant(whole, name, visited)
        home = self.modules.get(where)
        if home is None:
            return _NOTHING
        if (found := home.classes.get(original)) is not None:
            return self._any_of(_assigned(found.body).get(name, []), home, visited, (home.name, f"{original}.{name}"))
        made = [value for value in home.constants.get(original, []) if isinstance(value, ast.Call)]
        return _union(self.texts(self._field_of(call, name), home, visited) for call in made)

    def _field_of(self, call: ast.Call, name: str) -> ast.expr | None:
        shapes = [one.classes[_called(call)] for one in self.modules.values() if _called(call) in one.classes]
        fields = field_names(shapes[0]) if len(shapes) == 1 else []
        return _argument(call, name, fields.index(name) if name in fields else None)

    def _parameter(self, function: Function, name: str, module: Module, visited: Visited) -> frozenset[str]:
        """What callers pass, and the default."""
        here = (f"{module.name}:{function.lineno}", name)
        if here in visited:
            return _NOTHING
        visited |= {here}
        positional = [
            one.arg for one in (*function.args.posonlyargs, *function.args.args) if one.arg not in ("self", "cls")
        ]
        position = positional.index(name) if name in positional else None
        parent, callee = module.parents[function], function.name
        if callee == "__init__" and isinstance(parent, ast.ClassDef):
            callee = parent.name
        passed = [
            self.texts(_argument(call, name, position), caller, visited)
            for caller, call in self.calls(callee)
            if caller is module or module.name in caller.imported
        ]
        return _union([self.texts(_default(function, name), module, visited), *passed])


def field_names(shape: ast.ClassDef) -> list[str]:
    """The fields that a class declares itself."""
    return [
        node.target.id
        for node in shape.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and "ClassVar" not in ast.dump(node.annotation)
    ]


def _dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """What is assigned to each name, also by walking over a tuple that is written out."""
    found: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for node in nodes:
        match node:
            case ast.AnnAssign(target=target, value=value) if value is not None:
                _assign(target, value, found)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _assign(target, value, found)
            case ast.NamedExpr(target=target, value=value):
                _assign(target, value, found)
            case (
                ast.For(target=target, iter=several)
                | ast.AsyncFor(target=target, iter=several)
                | ast.comprehension(target=target, iter=several)
            ):
                for item in several.elts if isinstance(several, ast.Tuple | ast.List | ast.Set) else ():
                    _assign(target, item, found)
    return dict(found)


def _assign(target: ast.expr, value: ast.expr, found: defaultdict[str, list[ast.expr]]) -> None:
    match target, value:
        case ast.Name(id=name), _:
            found[name].append(value)
        case ast.Tuple(), ast.IfExp(body=body, orelse=other):
            _assign(target, body, found)
            _assign(target, other, found)
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for one, its in zip(targets, values, strict=True):
                _assign(one, its, found)


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _argument(call: ast.Call, keyword: str, position: int | None) -> ast.expr | None:
    named = next((one.value for one in call.keywords if one.arg == keyword), None)
    if named is not None or position is None or position >= len(call.args):
        return named
    starred = any(isinstance(one, ast.Starred) for one in call.args[: position + 1])
    return None if starred else call.args[position]


def _arguments(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _default(function: Function, name: str) -> ast.expr | None:
    positional = [*function.args.posonlyargs, *function.args.args]
    without = len(positional) - len(function.args.defaults)
    defaults: list[ast.expr | None] = [*[None] * without, *function.args.defaults, *function.args.kw_defaults]
    return next((value for one, value in zip(_arguments(function), defaults, strict=True) if one.arg == name), None)


def _joined(parts: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset("".join(found) for found in product(*(sorted(part) or [UNKNOWN] for part in parts)))


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return _NOTHING.union(*sets)
