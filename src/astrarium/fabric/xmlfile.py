"""XML of hosts (NCCL, lstopo) as a tree, safely: no entities, nothing loaded, bounded size, depth and elements."""

from __future__ import annotations

from collections.abc import Iterator
from xml.parsers import expat

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["Element", "parse_xml"]

MOST_ELEMENTS = 200_000
DEEPEST = 64


class Element(Struct, gc=True):
    """An element: its attributes, the line where it begins, what it contains, its text."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element]
    text: str = ""

    def all_of(self, tag: str) -> Iterator[Element]:
        """The elements of one tag directly inside it."""
        return (child for child in self.children if child.tag == tag)


def parse_xml(text: str, where: str) -> Element:
    """The outermost element of a text. A document type is passed over: nothing is loaded. Raises InputError, with the
    line, for what is not well-formed, declares entities, is nested too deeply or has too many elements."""
    parser = expat.ParserCreate()
    stack: list[Element] = []
    texts: list[list[str]] = []
    roots: list[Element] = []
    count = 0

    def refuse(message: str, expected: str) -> InputError:
        return InputError(f"{where}:{parser.CurrentLineNumber}", message, expected=expected)

    def doctype(_name: str, _system: str | None, _public: str | None, inner: int) -> None:
        if inner:
            raise refuse("a document type with declarations", "plain elements")

    def entity(*_: object) -> int:
        raise refuse("an entity", "plain elements")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS or len(stack) >= DEEPEST:
            raise refuse(f"more than {MOST_ELEMENTS:,} elements" if count > MOST_ELEMENTS else
                         f"elements are nested more than {DEEPEST} deep", "the description of a host")
        element = Element(tag, attributes, parser.CurrentLineNumber, [])
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)
        texts.append([])

    def end(_: str) -> None:
        stack.pop().text = "".join(texts.pop())

    def characters(data: str) -> None:
        if stack:
            texts[-1].append(data)

    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = parser.ExternalEntityRefHandler = entity
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        said = expat.ErrorString(error.code)
        raise InputError(f"{where}:{error.lineno}", f"is not well-formed XML: {said}") from None
    return roots[0]
