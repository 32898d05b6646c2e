"""Frozen, checked configuration: one class per section; the same names in YAML, in Python and on the command line."""

from __future__ import annotations

from astrarium.config.base import Config, ConfigError, decode, to_plain
from astrarium.config.files import dump, dumps, load, loads
from astrarium.config.paths import assignment, assignments, get, parse_path, put, replace, replace_all
from astrarium.config.reflect import FieldInfo, fields, numbers
from astrarium.config.spec import Knob, Problem, default
from astrarium.config.yamlfile import parse_yaml

__all__ = ["Config", "ConfigError", "FieldInfo", "Knob", "Problem", "assignment", "assignments", "decode", "default",
           "dump", "dumps", "fields", "get", "load", "loads", "numbers", "parse_path", "parse_yaml", "put", "replace",
           "replace_all", "to_plain"]
