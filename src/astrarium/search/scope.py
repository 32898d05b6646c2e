"""Expressions as text: parsed, and their names resolved against a space.

A name is an axis, a derived value, a field of the base, or a figure of a result. Nothing is ever executed:

    or:    and {"or" and}            and:  not {"and" not}         not: ["not"] comparison
    comparison:  sum {("<=" | "<" | ">=" | ">" | "==" | "!=") sum | "in" "[" literal, ... "]"}
    sum: term {("+" | "-") term}     term: sign {("*" | "/" | "//" | "%") sign}     sign: ["-"] atom
    atom: number | quantity | 'text' | true | false | path | function "(" or, ... ")" | "(" or ")"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from astrarium.config import Config, get
from astrarium.config.derive import Derivation
from astrarium.errors import InputError, nearest
from astrarium.search.choice import plain, spread
from astrarium.search.expression import AGGREGATES, FALSE, TRUE, Const, Node, Op, Ref, make, names_in, resolve
from astrarium.units import Bandwidth, Bytes, EnergyPerByte, FlopRate, Length, Power, Quantity, Time

__all__ = ["COMPUTED", "FUNCTIONS", "MAX_LENGTH", "Scope", "parse"]

MAX_LENGTH = 4000
MAX_DEPTH = 40

_TOKEN = re.compile(r"""\s*(?:
    (?P<quantity>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![eE][-+]?[0-9])
        (?:[ ](?!(?:and|or|not|in)\b))?[A-Za-zµμ]+(?![A-Za-z0-9_.(\[]))
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
  | (?P<path>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:[0-9]{1,9}|\*)\])*)
  | (?P<text>"[^"]*"|'[^']*')
  | (?P<sign><=|>=|==|!=|//|[-+*/%<>(),\[\]])
)""", re.VERBOSE)

FUNCTIONS = {**dict.fromkeys(AGGREGATES, 0), "abs": 1, "sqrt": 1, "log2": 1, "ceil": 1, "floor": 1, "if": 3}
"""Name -> number of arguments (0: any)."""

COMPUTED = {"network.npus": "product(network.dims[*].npus)"}
"""Figures of a design that are not fields: the expressions that compute them."""

_WORDS = ("and", "or", "not", "in", "true", "false")
_COMPARISONS = ("<=", "<", ">=", ">", "==", "!=")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str, where: str = "") -> Node:
    """Parse `text` to a tree; names stay `Ref`s, also those with [*]. Raises InputError at `where` with the
    character."""
    if not isinstance(text, str):
        raise InputError(where, f"{text!r} is not an expression", expected="text such as 'a * b <= c'")
    if len(text) > MAX_LENGTH:
        raise InputError(where, "is too long", expected=f"at most {MAX_LENGTH} characters")
    reader = _Reader(text, where)
    node = reader.either(0)
    if reader.peek().kind:
        raise reader.fault("does not belong here", "the end, or an operator")
    return node


def _tokens(text: str, where: str) -> list[_Token]:
    found, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            at = position + len(text[position:]) - len(text[position:].lstrip())
            raise InputError(where, f"{text[at:at + 20]!r} at character {at + 1} of {text[:200]!r} is not understood",
                             expected="numbers, paths, 'text', functions, and + - * / // % <= < >= > == != and or not")
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    return found


class _Reader:
    """A recursive-descent parser of at most MAX_DEPTH levels."""

    def __init__(self, text: str, where: str):
        self.text, self.where, self.tokens, self.position = text, where, _tokens(text, where), 0

    def peek(self) -> _Token:
        """The next token; a token without kind at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else _Token("", "", len(self.text))

    def take(self, *texts: str) -> str | None:
        """Take the next token if it is one of these signs or words; None otherwise."""
        token = self.peek()
        if token.kind in ("sign", "path") and token.text in texts:
            self.position += 1
            return token.text
        return None

    def fault(self, message: str, expected: str, guess: str | None = None) -> InputError:
        token = self.peek()
        what = repr(token.text[:40]) if token.kind else "the end"
        return InputError(self.where, f"{what} at character {token.at + 1} of {self.text[:200]!r} {message}",
                          expected=expected, did_you_mean=guess)

    def made(self, name: str, *args: Node) -> Node:
        try:
            return make(name, args)
        except InputError as error:
            raise InputError(self.where, f"{self.text[:200]!r} {error.message}", expected=error.expected) from None

    def either(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.fault("is nested too deeply", f"at most {MAX_DEPTH} levels")
        found = [self.both(depth)]
        while self.take("or"):
            found.append(self.both(depth))
        return found[0] if len(found) == 1 else self.made("or", *found)

    def both(self, depth: int) -> Node:
        found = [self.negated(depth)]
        while self.take("and"):
            found.append(self.negated(depth))
        return found[0] if len(found) == 1 else self.made("and", *found)

    def negated(self, depth: int) -> Node:
        odd = False
        while self.take("not"):
            odd = not odd
        node = self.comparison(depth)
        return self.made("not", node) if odd else node

    def comparison(self, depth: int) -> Node:
        left, found = self.sum(depth), []
        while (sign := self.take(*_COMPARISONS, "in")) is not None:
            right = Const(self.literals()) if sign == "in" else self.sum(depth)
            found.append(self.made(sign, left, right))
            left = right
        return left if not found else found[0] if len(found) == 1 else self.made("and", *found)

    def literals(self) -> tuple[Any, ...]:
        if self.take("[") is None:
            raise self.fault("cannot follow 'in'", "a list such as ['ring', 'switch']")
        found: list[Any] = []
        while self.take("]") is None:
            if found and self.take(",") is None:
                raise self.fault("does not belong here", "',' or ']'")
            node = self.signed(0)
            if not isinstance(node, Const):
                raise self.fault("comes after a name in a list", "numbers and 'text' only")
            found.append(node.value)
        return tuple(found)

    def sum(self, depth: int) -> Node:
        node = self.term(depth)
        while (sign := self.take("+", "-")) is not None:
            right = self.term(depth)
            node = self.made("+", node, right if sign == "+" else self.made("*", Const(-1), right))
        return node

    def term(self, depth: int) -> Node:
        node = self.signed(depth)
        while (sign := self.take("*", "/", "//", "%")) is not None:
            node = self.made(sign, node, self.signed(depth))
        return node

    def signed(self, depth: int) -> Node:
        negative = False
        while self.take("-"):
            negative = not negative
        node = self.atom(depth)
        return self.made("*", Const(-1), node) if negative else node

    def atom(self, depth: int) -> Node:
        token = self.peek()
        if token.kind == "sign" and self.take("("):
            node = self.either(depth + 1)
            if self.take(")") is None:
                raise self.fault("does not close the bracket", "')'")
            return node
        if token.kind in ("", "sign") or (token.kind == "path" and token.text in ("and", "or", "not", "in")):
            raise self.fault("is not a value", "a number, a path, 'text' or a function")
        self.position += 1
        if token.kind == "number":
            plain = token.text.isdecimal()
            if plain and len(token.text) > 30:
                raise InputError(self.where, "holds a number that is too long", expected="at most 30 digits")
            return Const(int(token.text) if plain else float(token.text))
        if token.kind == "text":
            return Const(_literal(token.text[1:-1]))
        if token.kind == "quantity":
            found = _literal(token.text)
            if isinstance(found, str):
                self.position -= 1
                raise self.fault("is not a number with a unit", "such as 2s, 30ms or 80GiB")
            return Const(found)
        if token.text in _WORDS:
            return TRUE if token.text == "true" else FALSE
        return self.call(token.text, depth) if self.peek().text == "(" else Ref(token.text)

    def call(self, name: str, depth: int) -> Node:
        if name not in FUNCTIONS:
            self.position -= 1
            raise self.fault("is not a function", "one of " + ", ".join(FUNCTIONS), nearest(name, FUNCTIONS))
        self.take("(")
        args: list[Node] = []
        while self.take(")") is None:
            if args and self.take(",") is None:
                raise self.fault("does not belong here", "',' or ')'")
            args.append(self.either(depth + 1))
        if FUNCTIONS[name] not in (0, len(args)) or not args:
            wanted = FUNCTIONS[name] or "at least 1"
            raise InputError(self.where, f"{name}() has {len(args)} arguments in {self.text[:200]!r}",
                             expected=f"{wanted}")
        if name in AGGREGATES:      # folded when [*] is known: see `resolve`
            return Op(name, tuple(args))
        return self.made(name, *args)


def _literal(text: str) -> Any:
    """The base units of a quantity such as '80 GiB'; any other text as it is."""
    kinds: tuple[type[Quantity], ...] = (Time, Bytes, Bandwidth, FlopRate, Power, EnergyPerByte, Length)
    if text[:1].isdigit() or text[:1] in "+-.":
        for kind in kinds:
            try:
                return float(kind(text))
            except InputError:
                continue
    return text


class Scope:
    """Resolves the names of one space. `knobs`: axis name -> the paths that it sets; `derived`: path -> expression;
    `figures`: names that stay open until there is a result."""

    def __init__(self, base: Config | None, knobs: Mapping[str, Sequence[str]], derived: Mapping[str, str],
                 figures: Collection[str] = ()):
        self.base, self.figures = base, frozenset(figures)
        self._axis: dict[str, str] = {}
        for name, paths in knobs.items():
            self._axis |= dict.fromkeys((name, *paths), name)
        self._derived: dict[str, str] = {}
        for path, text in derived.items():
            self._spread(path, text)
        self._busy: list[str] = []

    def _spread(self, pattern: str, text: str) -> None:
        """Add a derived path, or one per entry of a pattern with [*]: [*] outside aggregates is that entry."""
        paths = spread(pattern, self.base) if self.base is not None else (pattern,)
        for index, path in enumerate(paths):
            self._derived[path] = text if len(paths) == 1 and "[*]" not in pattern else f"{text}\0{index}"

    @property
    def derived(self) -> tuple[str, ...]:
        """Every derived path."""
        return tuple(self._derived)

    def node(self, text: str, where: str) -> Node:
        """Parse `text` and resolve its names. Raises InputError at `where`, or at the name that is wrong."""
        source, _, index = text.partition("\0")
        tree = parse(source, where)
        if index:
            tree = _at(tree, int(index))
        try:
            return resolve(tree, self.meaning)
        except InputError as error:
            if error.path:
                raise
            raise InputError(where, f"{source[:200]!r} {error.message}", expected=error.expected,
                             did_you_mean=error.did_you_mean) from None

    def meaning(self, name: str) -> Sequence[Node]:
        """The nodes of a name: one, or with [*] one per entry of the base's list. Raises InputError if it is
        unknown."""
        if name in self._axis and "[*]" not in name:
            return [Ref(self._axis[name])]
        if "[*]" in name:
            if self.base is None:
                raise InputError(name, "has [*], and there is no base design whose list it could mean")
            return [node for path in spread(name, self.base) for node in self.meaning(path)]
        if name in self.figures:
            return [Ref(name)]
        if name in self._derived:
            return [self._macro(name)]
        if name in COMPUTED and self.base is not None:
            return [self.node(COMPUTED[name], name)]
        return [self._held(name)]

    def _macro(self, name: str) -> Node:
        if name in self._busy:
            raise InputError(name, "is derived from itself", expected=f"no circle among {', '.join(self._busy)}")
        self._busy.append(name)
        try:
            return self.node(self._derived[name], name)
        finally:
            self._busy.pop()

    def _by_technology(self, name: str, held: Any) -> Node | None:
        """A field that a technology determines, as a choice among the technologies' values; None if neither the
        technology nor its count is chosen. `held`: the base's value."""
        parent, _, field = name.rpartition(".")
        owner = get(self.base, parent) if parent and self.base is not None else None
        how: Derivation | None = type(owner).derive if isinstance(owner, Config) else None
        if how is None or field not in how.fields:
            return None
        names = [f"{parent}.{each}" for each in (how.name, how.count)]
        if not any(each in self._axis or each in self._derived for each in names):
            return None
        (technology,), (count,) = map(self.meaning, names)
        found: Node = Const(plain(held))
        for each in how.names.names():
            if (one := how.of(each).get(field)) is not None:
                value = make("*", (Const(float(one)), count)) if field in how.counted else Const(float(one))
                found = make("if", (make("==", (technology, Const(each))), value, found))
        return found

    def _refuse_unset(self, name: str) -> None:
        """Refuse a field that a chosen one unsets (`Config.either`): the base's value is not that of the designs."""
        parent, _, field = name.rpartition(".")
        owner = get(self.base, parent) if parent and self.base is not None else None
        for group in type(owner).either if isinstance(owner, Config) else ():
            for other in group if field in group else ():
                if other != field and (f"{parent}.{other}" in self._axis or f"{parent}.{other}" in self._derived):
                    raise InputError(name, f"is unset by {parent}.{other}, which is chosen", expected=f"{other}")

    def _held(self, name: str) -> Node:
        """The base's value of a field that is not chosen."""
        for path in (*self._axis, *self._derived):
            if name.startswith((f"{path}.", f"{path}[")):
                raise InputError(name, f"lies within {path}, which is chosen as a whole")
        known = [*self._axis, *self._derived, *self.figures]
        if self.base is None:
            raise InputError(name, "is not known", expected="one of " + ", ".join(known),
                             did_you_mean=nearest(name, known))
        try:
            value = get(self.base, name)
        except InputError as error:
            guess = nearest(name, [*known, *COMPUTED]) or error.did_you_mean
            raise InputError(name, error.message, expected=error.expected, did_you_mean=guess) from None
        if (by_name := self._by_technology(name, value)) is not None:
            return by_name
        self._refuse_unset(name)
        if isinstance(value, (Config, tuple)):
            raise InputError(name, "is not a single value", expected="the path of one field")
        return Const(plain(value))


def _at(node: Node, index: int) -> Node:
    """Replace [*] outside aggregates by one entry."""
    from astrarium.search.expression import AGGREGATES, Op

    if isinstance(node, Ref):
        return Ref(node.name.replace("[*]", f"[{index}]", 1))
    if not isinstance(node, Op) or node.name in AGGREGATES:
        return node
    return Op(node.name, tuple(_at(arg, index) for arg in node.args))


def used(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Names of several trees, in order of first appearance."""
    return tuple(dict.fromkeys(name for node in nodes for name in names_in(node)))
