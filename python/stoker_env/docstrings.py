"""Descriptions from docstrings in Google's, NumPy's and Sphinx's form."""

import inspect
import re
from typing import Dict, List, Optional, Tuple

_PARAMETERS = ("args", "arguments", "parameters", "params", "attributes", "keyword args", "keyword arguments")
_OTHERS = (
    "returns", "return", "raises", "yields", "yield", "example", "examples", "note", "notes", "see also",
    "references", "warnings", "warns", "other parameters", "todo",
)  # fmt: skip
_FIELD = re.compile(r":(param|parameter|arg|argument|keyword|ivar|cvar|var)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_OTHER_FIELD = re.compile(r":(returns?|rtype|raises?|type|yields?)\b[^:]*:")
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")


def parse(docstring: Optional[str]) -> Tuple[str, Dict[str, str]]:
    """The text before the sections, and the description of each parameter."""
    if not docstring:
        return "", {}
    lines = inspect.cleandoc(docstring).splitlines()
    summary: List[str] = []
    parameters: Dict[str, str] = {}
    in_sections = False
    index = 0
    while index < len(lines):
        line = lines[index]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        google = _google_section(line)
        if _is_underline(following) and line.strip().lower() in _PARAMETERS + _OTHERS:
            body, index = _numpy_body(lines, index + 2)
            if line.strip().lower() in _PARAMETERS:
                _add_numpy(parameters, body)
            in_sections = True
        elif google is not None:
            body, index = _indented(lines, index + 1)
            if google in _PARAMETERS:
                _add_google(parameters, body)
            in_sections = True
        elif _FIELD.match(line.strip()) or _OTHER_FIELD.match(line.strip()):
            body, end = _indented(lines, index + 1)
            _add_field(parameters, line, body)
            in_sections = True
            index = end
        else:
            if not in_sections:
                summary.append(line)
            index += 1
    return _paragraphs(summary), parameters


def _google_section(line: str) -> Optional[str]:
    """The small name of the Google section that a line opens."""
    name = line[:-1].strip().lower() if line.endswith(":") and not line.startswith(" ") else ""
    return name if name in _PARAMETERS + _OTHERS else None


def _is_underline(line: str) -> bool:
    return len(line.strip()) >= 3 and set(line.strip()) == {"-"}


def _indented(lines: List[str], index: int) -> Tuple[List[str], int]:
    """The indented or empty lines from `index`, and where they end."""
    end = index
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "\t"))):
        end += 1
    return lines[index:end], end


def _numpy_body(lines: List[str], index: int) -> Tuple[List[str], int]:
    """The lines up to the next underlined heading, and where they end."""
    end = index
    while end < len(lines) and not (end + 1 < len(lines) and _is_underline(lines[end + 1])):
        end += 1
    return lines[index:end], end


def _add_google(parameters: Dict[str, str], body: List[str]) -> None:
    filled = [line for line in body if line.strip()]
    if not filled:
        return
    indent = min(len(line) - len(line.lstrip()) for line in filled)
    name = None
    for line in filled:
        item = _GOOGLE_ITEM.match(line.strip()) if len(line) - len(line.lstrip()) == indent else None
        if item:
            name = item.group(1)
            parameters[name] = item.group(2).strip()
        elif name is not None:
            parameters[name] = (parameters[name] + " " + line.strip()).strip()


def _add_numpy(parameters: Dict[str, str], body: List[str]) -> None:
    names: List[str] = []
    for line in body:
        if not line.strip():
            continue
        item = _NUMPY_ITEM.match(line) if not line.startswith((" ", "\t")) else None
        if item:
            names = [name.strip() for name in item.group(1).split(",")]
            parameters.update({name: "" for name in names})
        else:
            for name in names:
                parameters[name] = (parameters[name] + " " + line.strip()).strip()


def _add_field(parameters: Dict[str, str], line: str, body: List[str]) -> None:
    item = _FIELD.match(line.strip())
    if item:
        parts = [item.group(3)] + [more.strip() for more in body if more.strip()]
        parameters[item.group(2)] = " ".join(part for part in parts if part)


def _paragraphs(lines: List[str]) -> str:
    """Lines joined to paragraphs, paragraphs kept apart."""
    text = "\n".join(line.rstrip() for line in lines).strip()
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", part) for part in re.split(r"\n\s*\n", text)) if text else ""
