"""Small faults that could be in a file: each is one operator, number or statement that is another.

mutations("capsnet/ops/losses.py", text) -> [Mutation(file, line, start, end, becomes), …]
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
REPLACED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
# Arguments without which all is the same on a CPU, where text is UTF-8 and lengths do agree.
UNTOLD = ("device", "encoding", "strict")
PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)  # conditions without an operator


@dataclass(frozen=True)
class Mutation:
    """One change of one file: the characters from start to end become others."""

    file: str
    statement: int  # the line its statement begins in
    line: int
    start: int
    end: int
    becomes: str

    @property
    def module(self) -> str:
        """The name by which its file is imported."""
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def applied(self, text: str) -> str:
        """Return the text of the file with this fault."""
        return text[: self.start] + self.becomes + text[self.end :]


def mutations(file: str, text: str) -> list[Mutation]:
    """Return every mutation of a file, in the order of its text."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def place(row: int, column: int) -> int:  # ast counts columns in bytes
        return starts[row - 1] + len(lines[row - 1].encode()[:column].decode())

    found = []
    for node, statement in walked(ast.parse(text)):
        for old, becomes in changes(node):
            start = place(old.lineno, old.col_offset)
            end = place(old.end_lineno or 0, old.end_col_offset or 0)
            found.append(Mutation(file, statement, old.lineno, start, end, becomes))
    return sorted(found, key=lambda m: (m.start, m.end, m.becomes))


def walked(node: ast.AST, statement: int = 1) -> Iterator[tuple[ast.AST, int]]:
    """Yield all that is run, and the line that its statement begins in.

    Annotations, decorators, base classes and what is inside of f-strings are left out.
    """
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg in UNTOLD):
        return
    statement = node.lineno if isinstance(node, ast.stmt) else statement
    yield node, statement
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "bases"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walked(child, statement)


def changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield what could stand in the place of a node or of its condition."""
    match node:
        case ast.If(test) | ast.While(test) | ast.IfExp(test) if isinstance(test, PLAIN):
            yield test, f"(not {ast.unparse(test)})"
        case ast.Compare(left, [op, *others], compared) if type(op) in COMPARED:
            yield node, _text(ast.Compare(left, [COMPARED[type(op)](), *others], compared))
        case ast.BinOp(left, op, right) if type(op) in REPLACED:
            yield node, _text(ast.BinOp(left, REPLACED[type(op)](), right))
        case ast.BoolOp(op, values):
            yield node, _text(ast.BoolOp(REPLACED[type(op)](), values))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield node, _text(operand)
        case ast.Constant(bool(value)):
            yield node, str(not value)
        case ast.Constant(int(value)):
            yield node, str(value + 1)
        case ast.Constant(float(value)):
            yield node, str(2 * value if value else 1.0)
        case ast.Call(func, args, keywords):
            for k in (k for k, x in enumerate(keywords) if x.arg not in UNTOLD):
                yield node, _text(ast.Call(func, args, keywords[:k] + keywords[k + 1 :]))
        case ast.Return(ast.expr() as value) if not _is_nothing(value):
            yield node, "return None"
        case ast.Expr(value) if not isinstance(value, ast.Constant | ast.Yield | ast.YieldFrom):
            yield node, "pass"
        case ast.Raise() | ast.AugAssign():
            yield node, "pass"
        case ast.Continue():
            yield node, "break"
        case ast.Break():
            yield node, "continue"


def _is_nothing(value: ast.expr) -> bool:
    """Tell whether None would be as false: what is asked for as a condition is the same."""
    return isinstance(value, ast.Constant) and value.value in (None, False)


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"
