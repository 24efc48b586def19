"""From words to a verb's arguments: tyro reads the signature, and this says how it is shown.

status = call(verb, ["--weights", "runs/mine"], "capsnet evaluate")
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

T = TypeVar("T")
Verb = Callable[..., int]
NOTHING = {"None", "False", ""}  # defaults that go without saying
PLACEHOLDERS = {str: "TEXT", int: "INT", float: "FLOAT", Path: "PATH"}
REGISTRY = ConstructorRegistry()


@dataclass(frozen=True)
class SaidIn:
    """Marks an option that names a file which stands for words: said before all others."""

    flag: str
    words: Callable[[Path], list[str]]

    def before(self, words: Sequence[str]) -> list[str]:
        """Return the words with those of the file before them, so that what is given wins."""
        said: list[str] = []
        for word, following in zip(words, [*words[1:], ""], strict=True):
            name, _, value = word.partition("=")
            if name == self.flag and (value or following):
                said = self.words(Path(value or following))
        return [*said, *words]


def call(verb: Verb, words: Sequence[str], prog: str) -> int:
    """Call a verb with the arguments that the words say; --help prints its help and exits."""
    for hint in get_type_hints(verb, include_extras=True).values():
        for mark in getattr(hint, "__metadata__", ()):
            words = mark.before(words) if isinstance(mark, SaidIn) else words
    return tyro.cli(
        tidy(verb), args=words, prog=prog, config=(FlagCreatePairsOff,), registry=REGISTRY
    )


@REGISTRY.primitive_rule
def left_out(
    info: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | UnsupportedTypeAnnotationError | None:
    """Read `X | None` as X: None is what it is when it is left out, and nothing to be given."""
    kinds = [kind for kind in get_args(info.type) if kind is not type(None)]
    if get_origin(info.type) not in (Union, UnionType) or len(kinds) != 1:
        return None
    spec = REGISTRY.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], info.markers))
    if isinstance(spec, UnsupportedTypeAnnotationError):
        return spec
    inner = spec
    return replace(
        spec,
        is_instance=lambda x: x is None or inner.is_instance(x),
        str_from_instance=lambda x: [] if x is None else inner.str_from_instance(x),
    )


def tidy(verb: Verb) -> Verb:
    """Return the verb as the help shows it: short placeholders, no defaults that say nothing."""
    hints = get_type_hints(verb, include_extras=True)
    hints.pop("return", None)

    def same(**given: Any) -> int:
        return verb(**given)

    # A text that goes on in the next line of the docstring is wrapped anew.
    same.__doc__ = re.sub(r"\n {12}", " ", verb.__doc__ or "")
    same.__signature__ = inspect.signature(verb)  # type: ignore[attr-defined]
    same.__annotations__ = {name: shown(name, hint) for name, hint in hints.items()}
    return same


def shown(name: str, hint: Any, text: str | None = None) -> Any:
    """Return an annotation with how it is shown: its placeholder, help text and default."""
    positional = Positional in getattr(hint, "__metadata__", ())
    return Annotated[
        hint,
        arg(
            help=text,
            metavar=placeholder(hint, name.upper() if positional else None),
            help_behavior_hint=lambda x: "" if x in NOTHING else f"(default: {x})",
        ),
    ]


def placeholder(hint: Any, name: str | None = None) -> str | None:
    """Return what stands for a value, such as INT, or "INT ..." for several; None: as tyro has it.

    name: What stands for it if it is positional.
    """
    if get_origin(hint) is Annotated:
        return placeholder(get_args(hint)[0], name)
    if get_origin(hint) is tuple:
        return f"{placeholder(get_args(hint)[0], name)} ..."
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if get_origin(hint) is not Literal and len(kinds) == 1:
        inner = placeholder(kinds[0], name)
        return f"[{inner}]" if name else inner
    return name or PLACEHOLDERS[hint] if hint in PLACEHOLDERS else None


def grouped(settings: Callable[..., T], groups: Mapping[str, Sequence[str]]) -> Callable[..., T]:
    """Return a constructor of a flat dataclass whose fields the help shows in groups.

    The fields' docstrings are their help texts.
    """
    hints = get_type_hints(settings, include_extras=True)
    texts = field_docs(settings)
    defaults = {f.name: f.default for f in fields(settings)}  # type: ignore[arg-type]
    parts: dict[str, Any] = {}
    for number, (title, names) in enumerate(groups.items()):
        members = [
            (name, shown(name, hints[name], texts.get(name)), field(default=defaults[name]))
            for name in names
        ]
        part = make_dataclass(f"Group{number}", members)
        parts[f"group{number}"] = Annotated[part, OmitArgPrefixes, arg(name=f"{title}:", help="")]

    def build(**given: Any) -> T:
        return settings(**{k: x for part in given.values() for k, x in vars(part).items()})

    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(name, keyword) for name in parts])
    build.__signature__ = signature  # type: ignore[attr-defined]
    build.__annotations__ = parts
    return build


def field_docs(settings: Any) -> dict[str, str]:
    """Return the docstring below each field of a dataclass and of those it extends, as one line."""
    docs = {}
    for part in reversed(settings.__mro__[:-1]):
        (tree,) = ast.parse(inspect.getsource(part)).body
        assert isinstance(tree, ast.ClassDef)
        for above, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name):
                match below:
                    case ast.Expr(ast.Constant(str(text))):
                        docs[above.target.id] = " ".join(text.split())
    return docs
