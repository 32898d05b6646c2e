"""Chakra's import paths, from astrarium-chakra-shim; refuses where the real package is installed too."""

from importlib.metadata import PackageNotFoundError, version


def _alone() -> None:
    try:
        found = version("chakra")
    except PackageNotFoundError:
        return
    raise ImportError(f"astrarium-chakra-shim stands in for chakra, but chakra {found} is installed: "
                      "pip uninstall one of the two")


_alone()
