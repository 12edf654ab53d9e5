"""The text of methods in stubs: an operator's constructor as a method, with signature and docstring."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from importlib.util import resolve_name
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from .registration import Operator

PLUGGED_IN = "penstock_plugins"
"""The stub package with the operators of plug-ins. The installed one is empty."""

_OURS = "penstock"
_WIDTH = 110
_READING = "def __iter__(self) -> collections.abc.Iterator[T_co]: ..."


def methods_stub(
    entries: Iterable[Operator],
    extending: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> str:
    """Return the text of a module with a class of methods per kind of pipe, which extends those of other modules.

    `functions` are methods of both kinds that are no operators: they take the pipe as their first argument.
    """
    names = _Names({entry.name for entry in entries})
    names.modules.update(extending)
    of_both = [_function_stub(name, function, names) for name, function in (functions or {}).items()]
    classes = []
    for kind in ("iter", "map"):
        base = "".join(f"{module}.{kind.title()}Methods[T_co], " for module in extending)
        here = sorted((each for each in entries if each.on == kind and each.method), key=lambda entry: entry.name)
        methods = [_READING, *(method for entry in here for method in _overloads(entry, names)), *of_both]
        body = textwrap.indent("\n\n".join(methods), "    ")
        classes.append(f"class {kind.title()}Methods({base}Generic[T_co]):\n{body}\n")
    imports = "".join(f"import {module}{_unless_typed(module)}\n" for module in sorted(names.modules, key=_place))
    variables = "".join(f"{definition}\n" for definition in names.type_variables.values())
    typing = "from typing import Any, Generic, ParamSpec, TypeVar\n"
    return "\n".join(["", imports + typing, variables, *classes])


def _place(module: str) -> tuple[bool, str]:
    """Return the sort key of an import: the standard library comes first."""
    return module.partition(".")[0] not in sys.stdlib_module_names, module


def _unless_typed(module: str) -> str:
    """Return the `type: ignore` for the import of a module that may lack types."""
    top = module.partition(".")[0]
    typed = top in sys.stdlib_module_names or top in (_OURS, PLUGGED_IN)
    return "" if typed else "  # type: ignore[import-untyped, unused-ignore]"


def _overloads(entry: Operator, names: _Names) -> list[str]:
    """Return the method stubs of an operator, one per overload of its constructor."""
    cls = entry.cls
    # __new__ may return something else than an instance.
    maker = "__new__" if "__new__" in vars(cls) else "__init__"
    definer = next(base for base in cls.__mro__ if maker in vars(base))
    constructors = _functions(definer, maker)
    overloads = [each for each in constructors if any("overload" in ast.unparse(d) for d in each.decorator_list)]
    outcome = _functions(cls, "result") or (constructors if maker == "__new__" else [])
    gives = (outcome[0].returns or ast.Name("Any")) if outcome else None
    if gives is not None and ast.unparse(gives) == "Self":  # another class of the same items
        gives = None
    methods = [_method_stub(entry.name, cls, definer, each, gives, names) for each in overloads or constructors]
    return [f"@typing.overload\n{method}" for method in methods] if overloads else methods


def _function_stub(name: str, function: Callable[..., Any], names: _Names) -> str:
    """Return the stub of a function as a method of its first argument."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.args.args.insert(0, ast.arg("self"))
    return _method_stub(name, function, function, definition, definition.returns or ast.Name("Any"), names)


def _method_stub(
    name: str, made_by: Any, definer: Any, constructor: ast.FunctionDef, gives: ast.expr | None, names: _Names
) -> str:
    signature = constructor.args
    itself, *parameters = [*signature.posonlyargs, *signature.args]
    defaults = [None] * (len(parameters) - len(signature.defaults)) + signature.defaults
    source = parameters.pop(0) if parameters else None
    qualify = names.of(sys.modules[definer.__module__])
    own_item = _item_of(source.annotation) if source is not None else None
    if isinstance(own_item, ast.Name) and qualify.is_type_variable(own_item.id):
        qualify.stands_for[own_item.id] = "T_co"
        own_item = None
    other_item = _item_of(signature.vararg.annotation) if source is None and signature.vararg else None
    is_any = own_item is None or ast.unparse(own_item) in ("Any", "typing.Any")
    written = ["self" if is_any else f"self: collections.abc.Iterable[{qualify(own_item)}]"]
    written += [
        qualify.parameter(each, default)
        for each, default in zip(parameters, defaults[1:] if source is not None else defaults, strict=True)
    ]
    if signature.posonlyargs[1:]:
        written.insert(len(signature.posonlyargs) - 1, "/")
    if signature.vararg:
        written.append(f"*{qualify.parameter(signature.vararg, None)}")
    elif signature.kwonlyargs:
        written.append("*")
    written += [
        qualify.parameter(each, default)
        for each, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
    ]
    if signature.kwarg:
        written.append(f"**{qualify.parameter(signature.kwarg, None)}")
    if isinstance(other_item, ast.Name) and qualify.is_type_variable(other_item.id):
        qualify.stands_for[other_item.id] = f"T_co | {qualify(other_item)}"  # includes this pipe's own items
    if gives is not None:
        returned = names.of(sys.modules[made_by.__module__], qualify.stands_for)(gives)
    elif itself.annotation is not None:
        returned = qualify(itself.annotation)
    else:
        returned = _returned(made_by, qualify)
    line = f"def {name}({', '.join(written)}) -> {returned}:"
    if len(line) > _WIDTH:
        line = f"def {name}(\n    " + ",\n    ".join(written) + f",\n) -> {returned}:"
    return f"{line}\n{textwrap.indent(_docstring(made_by), '    ')}\n    ..."


def _returned(cls: type, qualify: _Qualifier) -> str:
    qualify.names.modules.add(cls.__module__)
    parameters = [qualify(ast.Name(each.__name__)) for each in getattr(cls, "__parameters__", ())]
    return f"{cls.__module__}.{cls.__qualname__}" + (f"[{', '.join(parameters)}]" if parameters else "")


def _functions(cls: type, name: str) -> list[ast.FunctionDef]:
    """Return the definitions of a method in the source of a class, with all overloads."""
    if cls is object:
        return []
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return [each for each in body if isinstance(each, ast.FunctionDef) and each.name == name]


def _item_of(annotation: ast.expr | None) -> ast.expr | None:
    """Return the `T` of `IterDataPipe[T]`."""
    return annotation.slice if isinstance(annotation, ast.Subscript) else None


def _docstring(documented: Any) -> str:
    text = inspect.cleandoc(documented.__doc__ or "").replace("\\", "\\\\").replace('"""', r"\"\"\"")
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


class _Names:
    """The names in a stub: modules to import, and type variables to define."""

    def __init__(self, methods: set[str]) -> None:
        self.methods = methods
        self.modules = {"collections.abc", "typing"}
        self.type_variables = {"T_co": 'T_co = TypeVar("T_co", covariant=True)'}

    def of(self, module: ModuleType, stands_for: dict[str, str] | None = None) -> _Qualifier:
        return _Qualifier(self, module, stands_for or {})


class _Qualifier(ast.NodeTransformer):
    """Writes the annotations of a module with fully qualified names, valid in other modules."""

    def __init__(self, names: _Names, module: ModuleType, stands_for: dict[str, str]) -> None:
        self.names = names
        self.stands_for = stands_for
        self._module = module
        self._origins = _imported_names(module)

    def __call__(self, annotation: ast.expr | None) -> str:
        return "Any" if annotation is None else ast.unparse(self.visit(ast.parse(ast.unparse(annotation), mode="eval")))

    def parameter(self, parameter: ast.arg, default: ast.expr | None) -> str:
        text = f"{parameter.arg}: {self(parameter.annotation)}"
        if default is None:
            return text
        plain = isinstance(default, ast.Constant) or (
            isinstance(default, ast.UnaryOp) and isinstance(default.operand, ast.Constant)
        )
        return f"{text} = {ast.unparse(default) if plain else '...'}"

    def is_type_variable(self, name: str) -> bool:
        return isinstance(getattr(self._module, name, None), (TypeVar, ParamSpec))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value).endswith("Literal"):
            return ast.Subscript(self.visit(node.value), node.slice)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._qualified(node.id))

    def _qualified(self, name: str) -> str:
        if name == "Any":
            return "typing.Any"
        if name in self.stands_for:
            return self.stands_for[name]
        if self.is_type_variable(name):
            return self._type_variable(name)
        if isinstance(found := getattr(self._module, name, None), ModuleType):  # from wherever it was imported
            module, attribute = found.__name__, ""
        elif name in self._origins:
            module, attribute = self._origins[name]
        elif hasattr(builtins, name):
            # Inside the class, the bare name would mean the method.
            module, attribute = ("builtins", name) if name in self.names.methods else ("", name)
        else:
            module, attribute = self._module.__name__, name
        if module:
            self.names.modules.add(module)
        return ".".join(filter(None, (module, attribute)))

    def _type_variable(self, name: str) -> str:
        variable: TypeVar | ParamSpec = getattr(self._module, name)
        options = [self(_parsed(each)) for each in getattr(variable, "__constraints__", ())]
        if variable.__bound__ not in (None, type(None)):  # from Python 3.12 on, NoneType for a ParamSpec
            options.append(f"bound={self(_parsed(variable.__bound__))}")
        unique, number = name, 1
        while True:
            definition = f"{unique} = {type(variable).__name__}({', '.join([repr(unique), *options])})"
            if self.names.type_variables.setdefault(unique, definition) == definition:
                return unique
            number += 1
            unique = f"{name}_{number}"


def _parsed(annotation: object) -> ast.expr:
    text = getattr(annotation, "__forward_arg__", None) or inspect.formatannotation(annotation)
    return ast.parse(text, mode="eval").body


def _imported_names(module: ModuleType) -> dict[str, tuple[str, str]]:
    """Return, for each imported name of a module, its origin: the module and its name there."""
    package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
    origins: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                origins[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0],
                    "",
                )
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            home = resolve_name(relative, package) if node.level else relative
            origins.update({alias.asname or alias.name: (home, alias.name) for alias in node.names})
    return origins
