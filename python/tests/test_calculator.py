"""The Python calculator of examples/calculator says what the native one says, word for word."""

import os
import unittest

from support import EXAMPLES, ROOT, Client

FOLDER = os.path.join(EXAMPLES, "calculator")
EXPRESSIONS = os.path.join(ROOT, "src", "environment", "calculator", "testdata", "expressions.txt")


class CalculatorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(["python_tools:calculator", "python_tools:right_answer"], folder=FOLDER)
        cls.client.hello()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def calculate(self, expression):
        result = self.client.request("call", {"tool": "calculator", "arguments": {"expression": expression}})
        self.assertEqual(result["is_error"], result["content"].startswith("error: "))
        return result["content"]

    def test_the_expressions_of_the_native_tests(self):
        with open(EXPRESSIONS, encoding="utf-8") as file:
            cases = [line.rstrip("\n").split("\t") for line in file if "\t" in line]
        self.assertGreater(len(cases), 300)
        for expression, result in cases:
            self.assertEqual(self.calculate(expression), result, expression)

    def test_wrong_expressions(self):
        for expression, words in [
            ("", "no expression"),
            ("1+", "the expression ends too early"),
            ("1/0", "division by zero"),
            ("0**-1", "division by zero"),
            ("10**400", "overflow"),
            ("(-8)**(1/3)", "not a real number"),
            ("1 2", "unexpected number at position 3"),
            ("2 $ 3", "unexpected '$' at position 3"),
            ("2 é", "unexpected character at position 3"),
            ("((1)", "missing ')' at the end"),
            ("(" * 65 + "1", "more than 64 levels"),
            ("1" * 1001, "more than 1000 bytes"),
        ]:
            self.assertEqual(self.calculate(expression), "error: " + words, expression)
        for expression, result in [
            ("2^3^2", "512"),
            ("−2×3", "-6"),
            ("0**0", "1"),
            ("1**99999999", "1"),
            ("(-1)**3", "-1"),
            ("-0", "0"),
            ("(-23^104/8*0)", "0"),
            ("92*10^30*-746-0^7", "-68632000000000000000000000000000000"),
        ]:
            self.assertEqual(self.calculate(expression), result, expression)

    def test_the_schema_is_the_native_one(self):
        self.assertEqual(
            self.client.request("tools", {})["tools"][0]["function"],
            {
                "name": "calculator",
                "description": "Evaluates an arithmetic expression with + - * / ** and parentheses.",
                "parameters": {
                    "type": "object",
                    "properties": {"expression": {"type": "string"}},
                    "required": ["expression"],
                    "additionalProperties": False,
                },
            },
        )

    def test_the_reward(self):
        for text, answer, reward in [("12*34 = 408", 408, 1), ("It is 0.50.", 0.5, 1), ("1,788", 1788, 1), ("?", 1, 0)]:
            messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]
            params = {"reward": "right_answer", "messages": messages, "task": {"id": "", "fields": {"answer": answer}}}
            self.assertEqual(self.client.request("score", params)["reward"], reward, text)


if __name__ == "__main__":
    unittest.main()
