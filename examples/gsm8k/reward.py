"""The reward of GSM8K: whether the number that the policy answers is the reference's.

    python3 -m stoker_env try reward:correct

The native twin is src/environment/gsm8k; both must agree on answer_cases.jsonl and on the reference answers of the whole
test set. The rules, in this order:

1. Where the text says which part is the answer, that part counts, the last such mark of the text: after "####" to the
   end of the line, or inside "\\boxed{...}".
2. Otherwise after the last "answer is" or "answer:" (in any case) to the end of its sentence, if a number is there.
3. Otherwise the last number of the text.

In a marked part the number is the first one after its last "=". Numbers are read with thousands commas, currency signs,
decimals, exponents, fractions (3/4, \\frac{3}{4}) and mixed numbers (1 1/2). They are compared exactly: 0.75 is 3/4.
"""

import math
import re
from typing import Iterator, Optional, Tuple

from stoker_env import Episode, reward

_LATEX = (("{,}", ","), (",\\!", ","), ("\\!", ""), ("\\,", ""), ("\\$", "$"), ("\\%", "%"), ("−", "-"))
_FRACTION = re.compile(r"([0-9]?)\\[dt]?frac\{(-?[0-9]+)\}\{([0-9]+)\}")
_NUMBER = re.compile(
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+|[0-9]+|(?=\.[0-9]))(?P<fraction>\.[0-9]+)?(?:[eE](?P<exponent>[+-]?[0-9]+))?"
)
_RATIO = re.compile(r"([0-9]{1,18})/([0-9]{1,18})(?![0-9]|/[0-9]|\.[0-9])")
_PHRASE = re.compile(r"answer is|answer:", re.IGNORECASE | re.ASCII)
_SENTENCE_END = re.compile(r"\n|\.(?=[ \t\r\n]|\Z)")
_CURRENCIES = "$€£¥"
_LARGEST_EXPONENT = 400


@reward
def correct(episode: Episode, answer: str) -> Optional[float]:
    """1 when the final answer is the number of the row's column `answer`, else 0."""
    reference = extract_answer(str(answer))
    if reference is None:
        return None  # nothing to compare with: not scored, which is not zero
    if episode.outcome != "done" or episode.answer is None:
        return 0.0
    return 1.0 if extract_answer(episode.answer) == reference else 0.0


def extract_answer(text: str) -> Optional[str]:
    """The answer's number in canonical form: "-12.5", "1234", or "1/3" where no decimal is exact."""
    marked = _marked_part(text)
    if marked is not None:
        found = _first_number(marked)
        if found is not None:
            return found
    phrase = None
    for phrase in _PHRASE.finditer(text):
        pass
    if phrase is not None:
        end = _SENTENCE_END.search(text, phrase.end())
        found = _first_number(text[phrase.end() : end.start() if end else len(text)])
        if found is not None:
            return found
    found = None
    for found in _numbers(_plain(text)):
        pass
    return found


def _marked_part(text: str) -> Optional[str]:
    hashes, box = text.rfind("####"), text.rfind("\\boxed{")
    if hashes < 0 and box < 0:
        return None
    if hashes > box:
        return text[hashes + 4 :].split("\n", 1)[0]
    inside = text[box + len("\\boxed{") :]
    depth = 1
    for index, character in enumerate(inside):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return inside[:index]
    return inside.split("\n", 1)[0]


def _first_number(part: str) -> Optional[str]:
    return next(_numbers(_plain(part).rpartition("=")[2]), None)


def _plain(text: str) -> str:
    for latex, plain in _LATEX:
        text = text.replace(latex, plain)
    return _FRACTION.sub(lambda m: (m.group(1) + " " if m.group(1) else "") + m.group(2) + "/" + m.group(3), text)


def _numbers(text: str) -> Iterator[str]:
    """The numbers of a text from left to right, in canonical form."""
    at = 0
    while True:
        found = _NUMBER.search(text, at)
        if found is None:
            return
        value, at = _read(text, found)
        sign = "-" if value != "0" and _is_negative(text[max(0, found.start() - 3) : found.start()]) else ""
        yield sign + value


def _is_negative(before: str) -> bool:
    """Whether the three characters in front of a number end with its sign: "-", "-$", "$-"."""
    if before and before[-1] in _CURRENCIES:
        before = before[:-1]
    if not before.endswith("-"):
        return False
    return len(before) < 2 or not re.match(r"[0-9A-Za-z)]", before[-2])


def _read(text: str, found: "re.Match[str]") -> Tuple[str, int]:
    """The number that begins at a match, and where it ends."""
    whole, fraction, exponent = found.group("whole"), found.group("fraction"), found.group("exponent")
    ratio = _RATIO.match(text, found.start())
    if ratio is not None and int(ratio.group(2)) != 0 and not _follows_slash(text, found.start()):
        return _ratio(int(ratio.group(1)), int(ratio.group(2))), ratio.end()
    if fraction is None and exponent is None and len(whole) <= 9 and "," not in whole:
        mixed = _RATIO.match(text, found.end() + 1) if text[found.end() : found.end() + 1] == " " else None
        if mixed is not None and 0 < int(mixed.group(1)) < int(mixed.group(2)) < 10**9:
            over, under = int(mixed.group(1)), int(mixed.group(2))
            return _ratio(int(whole) * under + over, under), mixed.end()
    end, power = found.end(), 0
    if exponent is not None:
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:  # no number; the digits before the letter are
            power, end = 0, found.start("exponent") - 1
    return _decimal(whole.replace(",", ""), (fraction or ".")[1:], power), end


def _follows_slash(text: str, start: int) -> bool:
    return start >= 2 and text[start - 1] == "/" and text[start - 2] in "0123456789"


def _decimal(whole: str, fraction: str, power: int) -> str:
    digits = whole + fraction
    point = len(whole) + power
    digits = "0" * max(0, -point) + digits + "0" * max(0, point - len(digits))
    point = max(0, point)
    before, after = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
    return before + ("." + after if after else "")


def _ratio(over: int, under: int) -> str:
    """A decimal where one is exact, else the reduced fraction."""
    divisor = math.gcd(over, under)
    over, under = over // divisor, under // divisor
    rest = under
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return "%d/%d" % (over, under)
    digits, remainder = "", over % under
    while remainder:
        remainder *= 10
        digits += str(remainder // under)
        remainder %= under
    return _decimal(str(over // under), digits, 0)
