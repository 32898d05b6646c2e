"""What tools/cpp_limits.py counts, and that its list of breaches may only shrink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.loading import tool

pytest.importorskip("lizard")

HEADER = """// a class in "two" files
namespace house {
enum class Colour { red };
template <class T, class U = int>
class Engine final : public Base<T> {
public:
    int inside() { return 1; }   // } in a comment
    struct Part { int a; };
    struct Far;
};
class Other;
}
"""
SOURCE = """namespace house {
struct Engine::Far {
    int b;
};
int Engine::outside(int x) {
    for (int i = 0; i < 3 && x > i; i++)
        x = x > 2 ? 1 : 0;
    return x;
}
int Engine::Part::more() {
    return 1;
}
static int alone() { return 2; }
}
"""


@pytest.fixture
def limits() -> Any:
    """tools/cpp_limits.py as a module."""
    return tool("cpp_limits")


@pytest.fixture
def checkout(limits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose class is split over two files, and limits that a few lines break."""
    for name, text in {"native/a.hpp": HEADER, "native/engine/b.inl": SOURCE, "tools/list.txt": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(limits, "ROOT", tmp_path)
    monkeypatch.setattr(limits, "BREACHES", tmp_path / "tools" / "list.txt")
    monkeypatch.setattr(limits, "LIMITS", {"file": 12, "class": 5, "function": 4, "complexity": 1})
    return tmp_path


def test_a_class_counts_whole(limits: Any) -> None:
    defined = [*limits.classes("a.hpp", HEADER), *limits.classes("b.inl", SOURCE)]
    bodies = [*limits.functions("a.hpp", HEADER), *limits.functions("b.inl", SOURCE)]
    assert {each.name: each.lines for each in defined} == {"Engine::Part": 1, "Engine": 6, "Engine::Far": 3}
    whole = {each.name: lines for each, lines in limits.whole_classes(defined, bodies).items()}
    assert whole == {"Engine::Part": 1 + 3, "Engine": 6 + 3 + 5 + 3, "Engine::Far": 3}


def test_classes_of_one_name_in_two_files_are_two(limits: Any) -> None:
    text = "class Reader {\n    void f();\n};\nvoid Reader::f() {\n}\n"
    defined = [each for where in ("a.cpp", "b.cpp") for each in limits.classes(where, text)]
    assert list(limits.whole_classes(defined, [*limits.functions("b.cpp", text)]).values()) == [3, 3 + 2]


def test_what_is_over_a_limit_is_found(limits: Any, checkout: Path) -> None:
    assert [str(each) for each in limits.written(limits.breaches(checkout)).splitlines()[1:]] == [
        "file 14 b.inl native/engine/b.inl", "class 17 Engine native/a.hpp",
        "function 5 Engine::outside native/engine/b.inl", "complexity 2 Engine::outside native/engine/b.inl"]


def test_the_list_may_only_shrink(limits: Any, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(text: str, *arguments: str) -> tuple[int, str]:
        limits.BREACHES.write_text(text)
        return limits.main([*arguments]), capsys.readouterr().out

    held = limits.written(limits.breaches(checkout))
    assert run(held)[0] == 0
    assert run(held.replace("class 17", "class 18"))[0] == 0
    assert run(held.replace("native/", "native/elsewhere/"))[0] == 0
    for text, said in ((held.replace("class 17", "class 16"), "class Engine: 17, was 16"),
                       ("", "class Engine: 17, limit 5"),
                       (held + "class 9 Gone native/a.hpp\n", "class Gone is no breach any more"),
                       (held + "class 17 Engine native/a.hpp\n", "class Engine is no breach any more")):
        code, out = run(text)
        assert (code, said in out) == (1, True), out
    code, out = run(held.replace("class 17", "class 16"), "--lower")
    assert (code, "was 16" in out, "class 16" in limits.BREACHES.read_text()) == (1, True, True)
    assert run(held.replace("class 17", "class 18") + "class 9 Gone native/a.hpp\n", "--lower")[0] == 0
    assert limits.BREACHES.read_text() == held
