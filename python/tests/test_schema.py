"""Schemas and descriptions from hints and docstrings, and values back from JSON."""

import collections.abc
import dataclasses
import enum
import sys
import typing
import unittest
from typing import Annotated, Any, Dict, List, Literal, NewType, Optional, Set, Tuple, TypedDict, Union

import support  # noqa: F401
from stoker_env.arguments import convert
from stoker_env.docstrings import parse
from stoker_env.schema import ArgumentError, SchemaError, function_schema, schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: To the right.
    """

    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    start: Point
    colours: List[Colour] = dataclasses.field(default_factory=list)


class Base(TypedDict):
    name: str


class Person(Base, total=False):
    age: int


@dataclasses.dataclass
class Tree:
    children: "List[Tree]"


UserId = NewType("UserId", int)

OBJECT = {"type": "object", "additionalProperties": False}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "description": "To the right."}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
    "description": "A place.",
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
# hint, schema, pairs of JSON and value, JSON that must be refused
CASES = [
    (str, {"type": "string"}, [("a", "a")], [1, None, ["a"]]),
    (int, {"type": "integer"}, [(3, 3), (3.0, 3)], [3.5, True, "3"]),
    (float, {"type": "number"}, [(3, 3.0), (0.5, 0.5)], [True, "3", None]),
    (bool, {"type": "boolean"}, [(True, True)], [1, "true"]),
    (None, {"type": "null"}, [(None, None)], [0]),
    (Any, {}, [({"a": [1]}, {"a": [1]})], []),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, [(1, 1), (None, None)], ["1"]),
    (Union[float, int], {"anyOf": [{"type": "number"}, {"type": "integer"}]}, [(2, 2), (2.5, 2.5)], ["2"]),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, [("a", "a")], ["c", 1]),
    (Literal[1, "b", None], {"enum": [1, "b", None]}, [(1, 1), (None, None)], [True, 2]),
    (Colour, {"type": "string", "enum": ["red", "blue"]}, [("red", Colour.RED)], ["RED", "green"]),
    (Level, {"type": "integer", "enum": [1, 2]}, [(2, Level.HIGH)], [3, "1"]),
    (List[int], {"type": "array", "items": {"type": "integer"}}, [([1, 2], [1, 2])], [["a"], 1, {"a": 1}]),
    (list, {"type": "array"}, [([1, "a"], [1, "a"])], ["a"]),
    (collections.abc.Sequence[str], {"type": "array", "items": {"type": "string"}}, [(["a"], ["a"])], ["a"]),
    (Set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, [(["a"], {"a"})], [[1]]),
    (Tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [([1, 2], (1, 2))], [["a"]]),
    (
        Tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        [([1, "a"], (1, "a"))],
        [[1], [1, 2], ["a", 1]],
    ),
    (
        Dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [({"a": 1}, {"a": 1})],
        [{"a": "b"}, []],
    ),
    (dict, {"type": "object"}, [({"a": 1}, {"a": 1})], [[]]),
    (Annotated[int, "How many."], {"type": "integer", "description": "How many."}, [(1, 1)], ["1"]),
    (UserId, {"type": "integer"}, [(1, 1)], ["1"]),
    (Point, POINT, [({"x": 1}, Point(1)), ({"x": 1, "y": 2}, Point(1, 2))], [{}, {"x": "a"}, {"x": 1, "z": 2}, []]),
    (
        Line,
        {
            "type": "object",
            "properties": {
                "start": POINT,
                "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            },
            "required": ["start"],
            "additionalProperties": False,
        },
        [
            ({"start": {"x": 1}, "colours": ["blue"]}, Line(Point(1), [Colour.BLUE])),
            ({"start": {"x": 1}}, Line(Point(1))),
        ],
        [{"start": {"x": "a"}}, {"colours": []}],
    ),
    (
        Person,
        PERSON,
        [({"name": "a"}, {"name": "a"}), ({"name": "a", "age": 1}, {"name": "a", "age": 1})],
        [{"age": 1}, {"name": 1}],
    ),
]


class SchemaTest(unittest.TestCase):
    def test_each_type_has_its_schema(self):
        for hint, schema, _, _ in CASES:
            with self.subTest(hint=hint):
                self.assertEqual(schema_of(hint, "x"), schema)

    def test_values_come_back_as_their_types(self):
        for hint, _, pairs, _ in CASES:
            for json_value, value in pairs:
                with self.subTest(hint=hint, value=json_value):
                    converted = convert(hint, json_value, "x")
                    self.assertEqual(converted, value)
                    self.assertIs(type(converted), type(value))

    def test_what_does_not_fit_is_refused(self):
        for hint, _, _, wrong in CASES:
            for value in wrong:
                with self.subTest(hint=hint, value=value), self.assertRaises(ArgumentError):
                    convert(hint, value, "x")

    def test_sentences_name_the_place(self):
        with self.assertRaisesRegex(
            ArgumentError, r'^arguments\.line\.start\.x must be an integer, but is the string "a"\.$'
        ):
            convert(Line, {"start": {"x": "a"}}, "arguments.line")
        with self.assertRaisesRegex(
            ArgumentError, r'^x\[1\] must be one of "red", "blue", but is the string "green"\.$'
        ):
            convert(List[Colour], ["red", "green"], "x")
        with self.assertRaisesRegex(ArgumentError, r"^x must be an integer, but is null\.$"):
            convert(int, None, "x")

    def test_types_without_a_schema_are_refused_with_a_sentence(self):
        for hint, words in [
            (Tree, "contains itself"),
            (bytes, "has no JSON Schema"),
            (Dict[int, str], "keys of a JSON object"),
            (typing.Callable[[], int], "has no JSON Schema"),
            (Literal[b"a"], "has no JSON form"),
        ]:
            with self.subTest(hint=hint), self.assertRaisesRegex(SchemaError, words):
                schema_of(hint, "the place")

    @unittest.skipIf(sys.version_info < (3, 10), "X | None is evaluated from Python 3.10 on")
    def test_new_unions(self):
        self.assertEqual(schema_of(eval("int | None"), "x"), {"anyOf": [{"type": "integer"}, {"type": "null"}]})

    @unittest.skipIf(sys.version_info < (3, 11), "NotRequired is there from Python 3.11 on")
    def test_not_required(self):
        fields = {"a": str, "b": typing.NotRequired[int]}
        hint = TypedDict("Mixed", fields)
        self.assertEqual(schema_of(hint, "x")["required"], ["a"])
        self.assertEqual(convert(hint, {"a": "x"}, "x"), {"a": "x"})

    def test_a_function(self):
        def search(query: str, limit: Optional[int] = None, *, exact: bool = False, colour: Colour = Colour.RED) -> str:
            """Search the shelf.

            Looks at every book, the
            thin ones too.

            Args:
                query: What to look for,
                    over two lines.
                limit (int, optional): At most so many.
                exact: No stemming: really.

            Returns:
                What was found.
            """
            return query

        self.assertEqual(
            function_schema(search, "search"),
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Search the shelf.\n\nLooks at every book, the thin ones too.",
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "query": {"type": "string", "description": "What to look for, over two lines."},
                            "limit": {
                                "anyOf": [{"type": "integer"}, {"type": "null"}],
                                "description": "At most so many.",
                                "default": None,
                            },
                            "exact": {"type": "boolean", "description": "No stemming: really.", "default": False},
                            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                        },
                        "required": ["query"],
                        "additionalProperties": False,
                    },
                },
            },
        )

    def test_a_default_of_none_makes_a_parameter_optional_in_every_python(self):
        def look(place: str = None):  # noqa: RUF013
            """Look."""

        schema = function_schema(look, "look")["function"]["parameters"]["properties"]["place"]
        self.assertEqual(schema["anyOf"], [{"type": "string"}, {"type": "null"}])

    def test_functions_that_cannot_be_tools(self):
        def bare(x):
            """No hint."""

        def star(*x: int):
            """Many."""

        for function, words in [(bare, "no type hint for its parameter 'x'"), (star, "no place in a schema")]:
            with self.subTest(function=function), self.assertRaisesRegex(SchemaError, words):
                function_schema(function, "f")


class DocstringTest(unittest.TestCase):
    def test_numpy(self):
        text = """Add.

        Parameters
        ----------
        a : int
            The first
            number.
        b, c : int, optional
            Others.

        Returns
        -------
        int
            The sum.
        """
        self.assertEqual(parse(text), ("Add.", {"a": "The first number.", "b": "Others.", "c": "Others."}))

    def test_sphinx(self):
        text = """Add.

        :param a: The first
            number.
        :param int b: The second.
        :type a: int
        :returns: The sum.
        """
        self.assertEqual(parse(text), ("Add.", {"a": "The first number.", "b": "The second."}))

    def test_a_colon_in_the_text_opens_no_section(self):
        self.assertEqual(
            parse("Note this: it adds.\n\nExample: 1 + 1."), ("Note this: it adds.\n\nExample: 1 + 1.", {})
        )
        self.assertEqual(parse(None), ("", {}))


if __name__ == "__main__":
    unittest.main()
