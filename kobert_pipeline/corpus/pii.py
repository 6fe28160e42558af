"""What identifies a person, replaced by something of the same shape that does not."""

import re
from collections.abc import Callable
from typing import Literal

Kind = Literal["email", "phone", "resident_number", "card"]

EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
BETWEEN = r"(?: ?[-.] ?| ?)"
PHONE = re.compile(
    rf"(?<![\d-])(?:\+82{BETWEEN}(?:\(0\))?{BETWEEN}|\(?0)(?:1[016789]|2|[3-6][1-5]|70|50\d)\)?{BETWEEN}\d{{3,4}}{BETWEEN}\d{{4}}(?![\d-])"
)
RESIDENT = re.compile(r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?: ?[-~] ?| )[1-8](?:\d{6}|\*{6})(?!\d)")
CARD = re.compile(r"(?<!\d)(?<!\d-)\d{4}( ?- ?| ?)\d{4}\1\d{4}\1\d{4}(?!\d)(?!-\d)")
DIGIT = re.compile(r"\d")
NARROW = {code + 0xFEE0: code for code in range(0x21, 0x7F)} | dict.fromkeys(
    (0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212), 0x2D
)
"""Full-width letters and dashes of all kinds as ASCII, one for one: numbers are looked for as if they were written
so."""


def luhn(number: str) -> bool:
    """Whether the check digit of a card's number is right (ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in number if digit.isdigit()][::-1]
    total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return total > 0 and total % 10 == 0


def _zeros(found: re.Match[str]) -> str:
    return DIGIT.sub("0", found.group())


def _card(found: re.Match[str]) -> str | None:
    return _zeros(found) if luhn(found.group()) else None


MASKS: dict[Kind, tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]] = {
    "email": (EMAIL, lambda _: "user@example.com"),
    "resident_number": (RESIDENT, _zeros),
    "card": (CARD, _card),
    "phone": (PHONE, _zeros),
}
"""In the order they are looked for: the longer numbers before those that look like a part of them; None leaves what was
found."""


def redact(text: str, kinds: tuple[Kind, ...]) -> str:
    """`text` with digits of phone, resident and card numbers as zeros, and e-mail addresses as one that belongs to
    nobody (RFC 2606)."""
    for kind, (pattern, replacement) in MASKS.items():
        if kind in kinds:
            text = _replaced(text, pattern, replacement)
    return text


def _replaced(text: str, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str | None]) -> str:
    parts, end = [], 0
    for found in pattern.finditer(text.translate(NARROW)):
        if (hidden := replacement(found)) is not None:
            parts += [text[end : found.start()], hidden]
            end = found.end()
    return "".join([*parts, text[end:]]) if parts else text
