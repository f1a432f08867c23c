"""Makes json_schema.jsonl: schemas and values drawn from a grammar, judged by the Python package jsonschema.

make_schema_goldens.py writes it, --check fails where it differs.
"""

import json
import pathlib
import random
import sys

import jsonschema

FILE = pathlib.Path(__file__).parent / "json_schema.jsonl"
NAMES = ["a", "b", "ab", "x1"]
NUMBERS = [0, 1, -1, 2, 3, 1.0, 1.5, 2.5, 1e3, 10**20, 2**53 + 1]
STRINGS = ["", "a", "ab", "abc", "x1", "éé", "世界", "12"]
PATTERNS = ["a", "^a", "b$", "^[a-z]+$", "\\d", "^.{2}$", "a|x"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def value(draw, depth=0):
    kind = draw.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return draw.random() < 0.5
    if kind in (2, 3):
        return draw.choice(NUMBERS)
    if kind == 4:
        return draw.choice(STRINGS)
    if kind == 5:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {name: value(draw, depth + 1) for name in draw.sample(NAMES, draw.randrange(4))}


def keyword(draw, depth):
    inner = lambda: schema(draw, depth + 1)
    several = lambda: [inner() for _ in range(draw.randrange(1, 4))]
    table = {
        "type": lambda: draw.choice(TYPES) if draw.random() < 0.6 else draw.sample(TYPES, draw.randrange(1, 4)),
        "enum": lambda: [value(draw, 2) for _ in range(draw.randrange(1, 4))],
        "const": lambda: value(draw, 1),
        "properties": lambda: {name: inner() for name in draw.sample(NAMES, draw.randrange(1, 4))},
        "patternProperties": lambda: {pattern: inner() for pattern in draw.sample(PATTERNS, draw.randrange(1, 3))},
        "additionalProperties": inner,
        "propertyNames": inner,
        "required": lambda: draw.sample(NAMES, draw.randrange(3)),
        "minProperties": lambda: draw.randrange(3),
        "maxProperties": lambda: draw.randrange(3),
        "dependentRequired": lambda: {draw.choice(NAMES): draw.sample(NAMES, draw.randrange(3))},
        "dependentSchemas": lambda: {draw.choice(NAMES): inner()},
        "items": inner,
        "prefixItems": several,
        "contains": inner,
        "minContains": lambda: draw.randrange(3),
        "maxContains": lambda: draw.randrange(3),
        "minItems": lambda: draw.randrange(3),
        "maxItems": lambda: draw.randrange(3),
        "uniqueItems": lambda: draw.random() < 0.8,
        "minimum": lambda: draw.choice(NUMBERS),
        "maximum": lambda: draw.choice(NUMBERS),
        "exclusiveMinimum": lambda: draw.choice(NUMBERS),
        "exclusiveMaximum": lambda: draw.choice(NUMBERS),
        "multipleOf": lambda: draw.choice([1, 2, 3, 0.5, 1.5]),
        "minLength": lambda: draw.randrange(3),
        "maxLength": lambda: draw.randrange(3),
        "pattern": lambda: draw.choice(PATTERNS),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$ref": lambda: "#/$defs/" + draw.choice(["one", "two~0%20x"]),
    }
    name = draw.choice(list(table))
    return name, table[name]()


def schema(draw, depth=0):
    if draw.random() < 0.1:
        return draw.random() < 0.7
    if depth > 2:
        return {"type": draw.choice(TYPES)}
    return dict(keyword(draw, depth) for _ in range(draw.randrange(1, 4)))


def rows():
    draw = random.Random(20261130)
    for _ in range(480):
        judged = schema(draw)
        if isinstance(judged, dict):
            judged["$defs"] = {"one": {"type": draw.choice(TYPES)}, "two~ x": {"minimum": 1, "minLength": 1}}
        given = value(draw)
        valid = jsonschema.Draft202012Validator(judged).is_valid(given)
        yield json.dumps({"schema": judged, "value": given, "valid": valid}, ensure_ascii=False, separators=(",", ":"))


def main():
    text = "".join(row + "\n" for row in rows())
    if "--check" in sys.argv:
        if FILE.read_text(encoding="utf-8") != text:
            sys.exit(f"{FILE} differs from what jsonschema says; run make.sh.")
        return
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
