"""The calculator and the reward of this example in Python: what the native ones say, from a process of its own.

python3 -m stoker_env try python_tools:calculator python_tools:right_answer
"""

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Optional, Union

from stoker_env import Episode, ToolError

Number = Union[int, Fraction, float]  # exact as long as it fits; a Fraction is no whole number

_LARGEST = 2**127 - 1  # numerators and denominators beyond this are left to floating point
_MAX_BYTES = 1000
_MAX_DEPTH = 64
_TOKEN = re.compile(r"[ \t\n\r\f\v]*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(\*\*|.)|\Z)", re.DOTALL)
_SPELLINGS = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-"}


def calculator(expression: str) -> str:
    """Evaluates an arithmetic expression with + - * / ** and parentheses."""
    if len(expression.encode()) > _MAX_BYTES:
        raise ToolError("more than %d bytes" % _MAX_BYTES)
    value = _Evaluator(expression).evaluate()
    return str(value) if isinstance(value, int) else "%.12g" % (float(value) + 0.0)  # no "-0"


def right_answer(episode: Episode, answer: Union[int, float, str]) -> float:
    """1 when the last number of the final answer is the row's `answer`."""
    text = episode.answer
    if episode.outcome != "done" or text is None:
        return 0.0
    numbers = re.findall(r"-?[0-9][0-9,]*(?:\.[0-9]+)?", text)
    return 1.0 if numbers and Decimal(numbers[-1].replace(",", "")) == Decimal(str(answer)) else 0.0


class _Evaluator:
    """Powers bind tightest and to the right, then signs, products and sums, these to the left."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._advance()

    def evaluate(self) -> Number:
        value = self._sum(0)
        if self._symbol:
            raise self._unexpected()
        return value

    def _sum(self, depth: int) -> Number:
        left = self._product(depth)
        while self._symbol in ("+", "-"):
            sign = self._take()
            right = self._product(depth)
            left = _bounded(left, right, "+" if sign == "+" else "-")
        return left

    def _product(self, depth: int) -> Number:
        left = self._sign(depth)
        while self._symbol in ("*", "/"):
            operator = self._take()
            left = _bounded(left, self._sign(depth), operator)
        return left

    def _sign(self, depth: int) -> Number:
        negative = False
        while self._symbol in ("+", "-"):
            negative ^= self._take() == "-"
        value = self._power(depth)
        return -value if negative else value

    def _power(self, depth: int) -> Number:
        base = self._operand(depth)
        if self._symbol != "^":
            return base
        self._take()
        if depth == _MAX_DEPTH:
            raise ToolError("more than %d levels" % _MAX_DEPTH)
        return _power(base, self._sign(depth + 1))

    def _operand(self, depth: int) -> Number:
        if self._symbol == "number":
            return _parsed(self._take())
        if self._symbol != "(":
            raise self._unexpected()
        if depth == _MAX_DEPTH:
            raise ToolError("more than %d levels" % _MAX_DEPTH)
        self._take()
        value = self._sum(depth + 1)
        if not self._symbol:
            raise ToolError("missing ')' at the end")
        if self._symbol != ")":
            raise self._unexpected()
        self._take()
        return value

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        assert found is not None
        number, symbol = found.groups()
        self._spelled = number or symbol or ""
        self._symbol = "number" if number else _SPELLINGS.get(symbol, symbol) if symbol else ""
        self._end = found.end()
        self._start = self._end - len(self._spelled)

    def _take(self) -> str:
        taken = self._spelled if self._symbol == "number" else self._symbol
        self._advance()
        return taken

    def _unexpected(self) -> ToolError:
        if not self._symbol:
            return ToolError("the expression ends too early" if self._text else "no expression")
        place = "at position %d" % (self._start + 1)
        if self._symbol == "number":
            return ToolError("unexpected number " + place)
        if len(self._spelled) == 1 and self._spelled not in _SPELLINGS and not " " <= self._spelled <= "~":
            return ToolError("unexpected character " + place)
        return ToolError("unexpected '%s' %s" % (self._spelled, place))


def _parsed(text: str) -> Number:
    if text.isdigit():
        value = _fitting(int(text))
    else:
        exponent = re.search(r"[eE]([+-]?[0-9]+)\Z", text)
        value = _fitting(Fraction(text)) if exponent is None or abs(int(exponent.group(1))) <= 1000 else None
    return _finite(float(text)) if value is None else value


def _fitting(value: Union[int, Fraction]) -> Optional[Number]:
    if abs(value.numerator) > _LARGEST or value.denominator > _LARGEST:
        return None
    return value.numerator if value.denominator == 1 else value


def _finite(value: float) -> float:
    if value != value or value in (float("inf"), float("-inf")):
        raise ToolError("overflow")
    return value


def _bounded(left: Number, right: Number, operator: str) -> Number:
    if operator == "/" and right == 0:
        raise ToolError("division by zero")
    if not isinstance(left, float) and not isinstance(right, float):
        value = _fitting(Fraction(left, right) if operator == "/" else _combined(left, right, operator))
        if value is not None:
            return value
    a, b = float(left), float(right)
    return _finite(a / b if operator == "/" else _combined(a, b, operator))


def _combined(left: Any, right: Any, operator: str) -> Any:
    return left + right if operator == "+" else left - right if operator == "-" else left * right


def _power(base: Number, exponent: Number) -> Number:
    if base == 0 and exponent < 0:
        raise ToolError("division by zero")
    if isinstance(exponent, int) and not isinstance(base, float):
        # What cannot fit is not tried: 2**128 has 129 bits.
        if abs(exponent) <= 127 or base in (0, 1, -1):
            power = _fitting(Fraction(base) ** (exponent % 2 if base == -1 else exponent))
            if power is not None:
                return power
    if base < 0 and exponent != int(exponent):
        raise ToolError("not a real number")
    try:
        return _finite(float(base) ** float(exponent))
    except OverflowError:
        raise ToolError("overflow") from None
