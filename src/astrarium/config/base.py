"""The frozen base of every config class, and decoding of plain data into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import msgspec

from astrarium.config.calls import help_of, misuse, sentence_of, signature_of
from astrarium.config.coerce import coerce, describe, members, shown
from astrarium.config.derive import Derivation, derived, settled
from astrarium.config.mapping import NameMap
from astrarium.config.named import LIKE, Shorthand, is_named, name_in, spelled_out
from astrarium.config.spec import FieldSpec, Problem, Variants, join, specs
from astrarium.errors import InputError, nearest

__all__ = ["Config", "ConfigError", "concrete", "decode", "decode_into", "is_default", "one_of", "to_plain",
           "unknown_key"]

LISTED = 16     # keys that an error lists where one is near
C = TypeVar("C", bound="Config")


class ConfigError(InputError):
    """Everything that is wrong with a configuration, one line each; the InputError fields are those of the first."""

    def __init__(self, problems: Sequence[Problem]):
        first = problems[0]
        super().__init__(first.path, first.message, expected=first.expected, did_you_mean=first.did_you_mean)
        self.problems = tuple(problems)
        lines = [str(InputError(p.path, p.message, expected=p.expected, did_you_mean=p.did_you_mean)) for p in problems]
        self.args = ("\n".join(lines),)


class _Meta(msgspec.StructMeta):
    """Config classes say what is wrong with a call, and what their fields are."""

    if not TYPE_CHECKING:      # for a type checker the constructor is the one that msgspec makes
        def __call__(self, *values: object, **named: object) -> object:
            try:
                return super().__call__(*values, **named)
            except TypeError:
                problems = misuse(self, values, named)
                if not problems:
                    raise
            raise ConfigError(problems)

        @property
        def __doc__(self) -> str:
            return help_of(self, sentence_of(self))

        @property
        def __signature__(self) -> object:
            return signature_of(self)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True, metaclass=_Meta):
    """Frozen data with named, checked fields. Constructors take text with units and lists; fields read as base units.

    An abstract class of a family sets `variants` (the registry kind that knows the concrete classes) and `tag_key` (the
    key that picks one in a file); a concrete one sets `tag`. `untagged`: the tag of data without the key; `former`:
    tags of older files, each with the one that errors propose. `rules` yield the problems that need more than one
    field.
    Where a class has a `shorthand`, text may replace it, or a mapping with `like`. Of every group in `either`
    at most one field is set: a change of one unsets the others. `preset` adds to plain data what names in them
    imply; `implies`: the fields that hold these names. `derive`: the fields that others determine (a
    technology its bandwidth); they are left out, or have this value, and are not written.
    """

    variants: ClassVar[Variants | None] = None
    tag_key: ClassVar[str] = ""
    tag: ClassVar[str] = ""
    untagged: ClassVar[str] = ""
    former: ClassVar[Mapping[str, str]] = MappingProxyType({})
    shorthand: ClassVar[Shorthand | None] = None
    either: ClassVar[tuple[tuple[str, ...], ...]] = ()
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = ()
    preset: ClassVar[Callable[[Mapping[str, Any]], Mapping[str, Any]] | None] = None
    implies: ClassVar[tuple[str, ...]] = ()
    derive: ClassVar[Derivation | None] = None

    @property
    def explicit(self) -> bool:
        """Whether a file states defaults too, since what it leaves out has other values (`preset`)."""
        return False

    @classmethod
    def _decoded(cls, given: str | Mapping[str, Any], path: str, problems: list[Problem]) -> Any:
        return decode_into(cls, given, path, problems)

    def __post_init__(self) -> None:
        if self.variants is not None and not self.tag:
            raise TypeError(f"{type(self).__name__} is abstract; take one of {', '.join(self.variants.names())}")
        problems: list[Problem] = []
        found = derived(self)
        for spec in specs(type(self)):
            value = getattr(self, spec.name)
            new: Any = None
            if spec.name in found:
                new = settled(value, found[spec.name], spec, problems)
            elif value is None and not (spec.required or type(None) in members(spec.type)):
                problems.append(Problem(spec.name, "is missing", describe(spec.type, spec.knob)))
            else:
                new = coerce(value, spec.type, spec.knob, spec.name, problems)
            if new is not value:
                msgspec.structs.force_setattr(self, spec.name, new)
        for rule in () if problems else self.rules:
            problems.extend(rule(self))
        if problems:
            raise ConfigError([problem.under(type(self).__name__) for problem in problems])


def concrete(cls: type[Config], plain: Mapping[str, Any], path: str, problems: list[Problem]) -> type[Config] | None:
    """The class that `plain` asks for: `cls` itself, or the variant that its tag names; None after a problem."""
    if cls.variants is None or cls.tag:
        return cls
    tag = plain.get(cls.tag_key, cls.untagged or None)
    if not isinstance(tag, str) or tag not in cls.variants:
        names = cls.variants.names()
        expected = "one of " + ", ".join(names)
        what = "is missing" if cls.tag_key not in plain else f"{shown(tag)} is not known"
        guess = (cls.former.get(tag) or nearest(tag, names)) if isinstance(tag, str) else None
        problems.append(Problem(join(path, cls.tag_key), what, expected, guess))
        return None
    found = cls.variants.load(tag)
    if not (isinstance(found, type) and issubclass(found, cls)):
        problems.append(Problem(join(path, cls.tag_key), f"{tag!r} is not a {cls.__name__}"))
        return None
    if found.tag != tag:        # else a design would be written under another name than it is read
        problems.append(Problem(join(path, cls.tag_key), f"the plug-in's class {found.__name__} has tag {found.tag!r}",
                                f"tag: ClassVar[str] = {tag!r}"))
        return None
    return found


def decode_into(cls: type[Config], given: str | Mapping[str, Any], path: str, problems: list[Problem]) -> Any:
    """`given` (plain data, or a name where `cls` has a shorthand) as a `cls`; itself after adding to `problems`."""
    if not is_named(cls, given):
        return _decoded(cls, cast("Mapping[str, Any]", given), path, problems, "")
    plain = spelled_out(cls, given, path, problems)
    return given if plain is None else _decoded(cls, plain, path, problems, name_in(given))


def _decoded(cls: type[Config], plain: Mapping[str, Any], path: str, problems: list[Problem], like: str) -> Any:
    """`plain` as a `cls`; `like`: the name of the catalog from which the data come."""
    plain = plain if cls.preset is None else cls.preset(plain)
    kind = concrete(cls, plain, path, problems)
    if kind is None:
        return plain
    before = len(problems)
    known = {spec.name: spec for spec in specs(kind)}
    keys = [key for key in plain if not (kind.tag_key and key == kind.tag_key)]
    _unknown_keys(keys, known, kind, path, problems, like)
    for name, spec in known.items():
        if spec.required and name not in plain:
            what, expected = "is missing", describe(spec.type, spec.knob)
            if like:
                what += f", and {like} does not say it"
                expected = f"`like: {like}` and beside it {name}: {expected}"
            problems.append(Problem(join(path, name), what, expected))
    values = {key: plain[key] for key in keys if key in known}
    if len(problems) > before:  # look at the fields that are there all the same: every problem at once
        for name, value in values.items():
            coerce(value, known[name].type, known[name].knob, join(path, name), problems)
        return plain
    try:
        return kind(**values)
    except ConfigError as error:
        problems.extend(_moved(problem, kind.__name__, path) for problem in error.problems)
        return plain


def _moved(problem: Problem, name: str, path: str) -> Problem:
    rest = problem.path[len(name):].removeprefix(".")
    return Problem(join(path, rest), problem.message, problem.expected, problem.did_you_mean)


def _unknown_keys(keys: Iterable[Any], known: Mapping[str, FieldSpec], kind: type[Config], path: str,
                  problems: list[Problem], like: str) -> None:
    legal = [LIKE] * (kind.shorthand is not None) + [kind.tag_key] * bool(kind.tag_key) + list(known)
    for key in keys:
        if key not in known:
            guess = nearest(key, legal) if isinstance(key, str) else None
            where = join(path, key) if isinstance(key, str) else path
            others = variants_with(kind, key)
            expected = one_of(legal, guess)
            if like and others:
                expected = f"{{{LIKE}: {like}, {kind.tag_key}: {others[0]}, {key}: ...}}, or {expected}"
            problems.append(Problem(where, unknown_key(kind, key), expected, guess))


def one_of(legal: Sequence[str], guess: str | None) -> str:
    """What is expected in place of an unknown key: one of the legal ones, or a few of many where one is near."""
    from difflib import get_close_matches  # 1 ms, at the start of every command

    if guess is None or len(legal) <= LISTED:
        return "one of " + ", ".join(legal)
    near = get_close_matches(guess, [each for each in legal if each != guess], n=3, cutoff=0.5)
    return f"one of {', '.join([guess, *near])} or {len(legal) - 1 - len(near)} others"


def variants_with(kind: type[Config], key: object) -> list[str]:
    """The variants of a config class's section, other than it, that have a field `key`."""
    variants = kind.variants
    if variants is None or not isinstance(key, str):
        return []
    return [name for name in variants.names() if any(spec.name == key for spec in specs(variants.load(name)))]


def unknown_key(kind: type[Config], key: object) -> str:
    """What is wrong with a key that config class `kind` does not have; names the variants of its section that do."""
    others = variants_with(kind, key)
    have = "have" if len(others) > 1 else "has"
    return f"unknown key {shown(key)}" + (f" of {kind.tag_key}: {kind.tag}; {' and '.join(others)} {have} it"
                                          if others else "")


def decode(cls: type[C], plain: object) -> C:
    """Plain data (as read from a file) as a `cls`. Raises ConfigError with every problem."""
    if not isinstance(plain, Mapping):
        what = "is empty" if plain is None else f"{shown(plain)} is not a mapping"
        raise ConfigError([Problem("", what, f"the keys of {cls.__name__}")])
    problems: list[Problem] = []
    value = decode_into(cls, plain, "", problems)
    if problems:
        raise ConfigError(problems)
    result: C = value
    return result


def to_plain(config: Config, *, defaults: bool = False) -> dict[str, Any]:
    """`config` as mappings, lists and scalars (quantities stay); `defaults`: also fields at their default."""
    tagged = config.tag_key and config.tag != config.untagged
    plain: dict[str, Any] = {config.tag_key: config.tag} if tagged else {}
    defaults = defaults or config.explicit
    base = None if defaults else type(config)
    left_out = derived(config)
    for spec in specs(type(config)):
        if spec.name in left_out:
            continue
        value = getattr(config, spec.name)
        if base is None or spec.required or not is_default(value, spec):
            plain[spec.name] = _plain(value, defaults)
    return plain


def is_default(value: object, spec: FieldSpec) -> bool:
    """Whether a field holds its default."""
    return bool(value == coerce(spec.default, spec.type, spec.knob, spec.name, []))


def _plain(value: Any, defaults: bool) -> Any:
    if isinstance(value, Config):
        return to_plain(value, defaults=defaults)
    if isinstance(value, NameMap):
        return {name: _plain(each, defaults) for name, each in value.items()}
    return [_plain(each, defaults) for each in value] if isinstance(value, tuple) else value
