"""The part of CEL, the language of `matchConditions`, that is supported; other expressions are refused when they are created.

Spoken: literals, lists, fields and indexes, `!`, `&&`, `||`, comparisons and `in`, the macros `has`, `all` and `exists`, and the
functions `size`, `startsWith`, `endsWith`, `contains` and `matches`. As in CEL, a field that is not there is an error, and `&&` and
`||` overlook an error on one side where the other decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

Values = Mapping[str, Any]
Expression = Callable[[Values], Any]

# The variables of `matchConditions`.
CONDITION_VARIABLES = ("object", "oldObject", "request")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<text>'(?:[^'\\\n]|\\['\"\\nt])*'|\"(?:[^\"\\\n]|\\['\"\\nt])*\")"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[!<>()\[\],.\-]))"
)
_ESCAPES = {"n": "\n", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class UnspokenError(ValueError):
    """An invalid or unsupported CEL expression."""


class EvaluationError(Exception):
    """A CEL evaluation error: a missing field or a value of the wrong type."""


def parse_expression(text: str, variables: Sequence[str]) -> Expression:
    """The expression as a function of its variables."""
    parser = _Parser(_tokens(text), text, {*variables})
    expression = parser.either()
    if parser.left:
        raise parser.unspoken()
    return expression


def evaluates_true(expression: Expression, values: Values) -> bool:
    found = expression(values)
    if not isinstance(found, bool):
        raise EvaluationError(f"the expression is {_type(found)}, not a bool")
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found, position = list[tuple[str, str]](), 0
    end = len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise UnspokenError(f"{text[position:].strip()[:40]!r} is not understood")
        found.append((str(token.lastgroup), token[str(token.lastgroup)]))
        position = token.end()
    return found


class _Parser:
    """A recursive descent parser; each method parses operators of higher precedence than the one before it."""

    def __init__(self, tokens: list[tuple[str, str]], text: str, names: set[str]) -> None:
        self.left = tokens[::-1]
        self._text = text
        self._names = names

    def unspoken(self) -> UnspokenError:
        if not self.left:
            return UnspokenError("the expression ends too early")
        return UnspokenError(f"{self.left[-1][1]!r} is not understood where it stands")

    def _next(self, sign: str) -> bool:
        if self.left and self.left[-1] == ("sign", sign):
            self.left.pop()
            return True
        return False

    def _need(self, sign: str) -> None:
        if not self._next(sign):
            raise self.unspoken()

    def _name(self) -> str:
        if not self.left or self.left[-1][0] != "name":
            raise self.unspoken()
        return self.left.pop()[1]

    def either(self) -> Expression:
        expression = self._both()
        while self._next("||"):
            expression = _decided(expression, self._both(), decides=True)
        return expression

    def _both(self) -> Expression:
        expression = self._relation()
        while self._next("&&"):
            expression = _decided(expression, self._relation(), decides=False)
        return expression

    def _relation(self) -> Expression:
        expression = self._unary()
        while self.left:
            kind, sign = self.left[-1]
            if (kind, sign) == ("name", "in"):
                self.left.pop()
                expression = _among(expression, self._unary())
            elif kind == "sign" and sign in ("==", "!=", *_ORDER):
                self.left.pop()
                expression = _compared(expression, sign, self._unary())
            else:
                break
        return expression

    def _unary(self) -> Expression:
        if self._next("!"):
            inner = self._unary()
            return lambda values: not _boolean(inner(values))
        if self._next("-"):
            number = self._unary()
            return lambda values: -_number(number(values))
        return self._member()

    def _member(self) -> Expression:
        expression = self._primary()
        while True:
            if self._next("."):
                name = self._name()
                expression = self._called(expression, name) if self._next("(") else _field(expression, name)
            elif self._next("["):
                expression = _item(expression, self.either())
                self._need("]")
            else:
                return expression

    def _primary(self) -> Expression:
        if self._next("("):
            inner = self.either()
            self._need(")")
            return inner
        if self._next("["):
            return self._list()
        if not self.left or self.left[-1][0] == "sign":
            raise self.unspoken()
        kind, token = self.left.pop()
        if kind == "number":
            number = float(token) if "." in token else int(token)
            return lambda _: number
        if kind == "text":
            text = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), token[1:-1])
            return lambda _: text
        if token in _WORDS:
            word = _WORDS[token]
            return lambda _: word
        if token in ("has", "size") and self._next("("):
            return self._function(token)
        if token not in self._names:
            raise UnspokenError(f"undeclared reference to {token!r}")
        return _variable(token)

    def _list(self) -> Expression:
        entries: list[Expression] = []
        while not self._next("]"):
            entries.append(self.either())
            if not self._next(","):
                self._need("]")
                break
        return lambda values: [entry(values) for entry in entries]

    def _function(self, name: str) -> Expression:
        argument = self.either()
        self._need(")")
        if name == "size":
            return lambda values: _size(argument(values))
        if not isinstance(argument, _Field):
            raise UnspokenError("has() expects a field, such as has(object.metadata.labels)")
        return argument.is_there

    def _called(self, target: Expression, name: str) -> Expression:
        if name in ("all", "exists"):
            variable = self._name()
            self._need(",")
            outer, self._names = self._names, {*self._names, variable}
            condition = self.either()
            self._names = outer
            self._need(")")
            return _over_all(target, variable, condition, decides=name == "exists")
        if name == "size":
            self._need(")")
            return lambda values: _size(target(values))
        if name not in _TEXT:
            raise UnspokenError(
                f"the function {name!r} is not understood; known are all, exists, size, {', '.join(_TEXT)}"
            )
        argument = self.either()
        self._need(")")
        return lambda values: _TEXT[name](_text(target(values)), _text(argument(values)))


class _Field:
    """A field of another expression's value."""

    def __init__(self, of: Expression, name: str) -> None:
        self._of = of
        self._name = name

    def __call__(self, values: Values) -> Any:
        whole = self._whole(values)
        if self._name not in whole:
            raise EvaluationError(f"no such key: {self._name}")
        return whole[self._name]

    def is_there(self, values: Values) -> bool:
        return self._whole(values).get(self._name) is not None

    def _whole(self, values: Values) -> dict[str, Any]:
        whole = self._of(values)
        if not isinstance(whole, dict):
            raise EvaluationError(f"{_type(whole)} has no field {self._name}")
        return whole


def _field(of: Expression, name: str) -> Expression:
    return _Field(of, name)


def _variable(name: str) -> Expression:
    return lambda values: values[name]


def _item(of: Expression, index: Expression) -> Expression:
    def item(values: Values) -> Any:
        whole, key = of(values), index(values)
        try:
            if isinstance(whole, dict) or (isinstance(whole, list) and isinstance(key, int) and key >= 0):
                return whole[key]
        except (KeyError, IndexError, TypeError):
            pass
        raise EvaluationError(f"no such key: {key}")

    return item


def _decided(left: Expression, right: Expression, *, decides: bool) -> Expression:
    return lambda values: _one_decides((partial(side, values) for side in (left, right)), decides=decides)


def _over_all(target: Expression, variable: str, condition: Expression, *, decides: bool) -> Expression:
    def over_all(values: Values) -> bool:
        whole = target(values)
        if not isinstance(whole, list | dict):
            raise EvaluationError(f"{_type(whole)} cannot be gone through")
        return _one_decides((partial(condition, {**values, variable: one}) for one in whole), decides=decides)

    return over_all


def _one_decides(answers: Iterable[Callable[[], Any]], *, decides: bool) -> bool:
    """Short-circuit evaluation; an error counts only if no other operand decides."""
    failure: EvaluationError | None = None
    for answer in answers:
        try:
            if _boolean(answer()) is decides:
                return decides
        except EvaluationError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decides


def _compared(left: Expression, sign: str, right: Expression) -> Expression:
    def compared(values: Values) -> bool:
        one, other = left(values), right(values)
        if sign in ("==", "!="):
            return _equal(one, other) is (sign == "==")
        if _type(one) != _type(other) or not isinstance(one, int | float | str):
            raise EvaluationError(f"no such overload: {_type(one)} {sign} {_type(other)}")
        return _ORDER[sign](one, other)

    return compared


def _among(one: Expression, many: Expression) -> Expression:
    def among(values: Values) -> bool:
        wanted, found = one(values), many(values)
        if not isinstance(found, list | dict):
            raise EvaluationError(f"{_type(found)} holds nothing")
        return any(_equal(wanted, entry) for entry in found)

    return among


def _equal(one: Any, other: Any) -> bool:
    # Python takes True for 1; CEL does not.
    return _type(one) == _type(other) and bool(one == other)


def _type(value: Any) -> str:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "list", dict: "map", type(None): "null"}
    return names[type(value)]


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"{_type(value)} is no bool")
    return value


def _number(value: Any) -> float:
    if _type(value) != "number":
        raise EvaluationError(f"{_type(value)} is no number")
    return value  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"{_type(value)} is no string")
    return value


def _size(value: Any) -> int:
    if not isinstance(value, list | dict | str):
        raise EvaluationError(f"{_type(value)} has no size")
    return len(value)


def _matches(text: str, pattern: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise EvaluationError(f"{pattern!r} is no regular expression: {error}") from None


_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
    "matches": _matches,
}
