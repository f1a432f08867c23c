#!/usr/bin/env python3
"""Makes src/environment/calculator/testdata/expressions.txt again: random expressions and their values by
Python's parser and exact fractions, an oracle that shares no code with the calculator.

Usage: tools/goldens/make_calculator_expressions.py > src/environment/calculator/testdata/expressions.txt
"""

import ast
import random
from fractions import Fraction

LIMIT = 2**120  # of numerators and denominators: inside this the calculator is exact


class TooBig(Exception):
    pass


def evaluate(node):
    if isinstance(node, ast.Expression):
        value = evaluate(node.body)
    elif isinstance(node, ast.Constant):
        value = Fraction(str(node.value))
    elif isinstance(node, ast.UnaryOp):
        value = evaluate(node.operand)
        value = -value if isinstance(node.op, ast.USub) else value
    else:
        left, right = evaluate(node.left), evaluate(node.right)
        if isinstance(node.op, ast.Add):
            value = left + right
        elif isinstance(node.op, ast.Sub):
            value = left - right
        elif isinstance(node.op, ast.Mult):
            value = left * right
        elif isinstance(node.op, ast.Div):
            value = left / right
        else:
            if right.denominator != 1 or abs(right) > 60:
                raise TooBig
            value = left ** int(right)
    if max(abs(value.numerator), value.denominator) > LIMIT:
        raise TooBig
    return value


def number(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return f"{rng.randrange(100)}.{rng.randrange(1000):03d}"
    if kind == 1:
        return f".{rng.randrange(1, 10)}"
    return str(rng.randrange(10 ** rng.choice([1, 2, 3, 6])))


def expression(rng, depth):
    if depth == 0 or rng.randrange(4) == 0:
        return number(rng)
    kind = rng.randrange(8)
    if kind == 0:
        return f"-{expression(rng, depth - 1)}"
    if kind == 1:
        return f"({expression(rng, depth - 1)})"
    if kind == 2:
        return f"({expression(rng, depth - 1)})**{rng.choice(['2', '3', '-1', '0', '-2'])}"
    operator = rng.choice(["+", "-", "*", "/", " + ", " * "])
    return f"{expression(rng, depth - 1)}{operator}{expression(rng, depth - 1)}"


def text_of(value):
    if value.denominator == 1:
        return str(value.numerator)
    return format(value.numerator / value.denominator, ".12g")


def main():
    rng = random.Random(20260101)
    written = 0
    seen = set()
    while written < 400:
        text = expression(rng, 4)
        if text in seen or len(text) < 3:
            continue
        seen.add(text)
        # Python reads 007 as an error; the calculator reads it as 7.
        try:
            tree = ast.parse(text, mode="eval")
            result = text_of(evaluate(tree))
        except SyntaxError:
            continue
        except ZeroDivisionError:
            result = "error: division by zero"
        except TooBig:
            continue
        print(f"{text}\t{result}")
        written += 1


main()
