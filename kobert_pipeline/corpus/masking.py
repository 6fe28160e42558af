"""What identifies a person, replaced by something of the same shape that does not."""

import re
from collections.abc import Callable
from typing import Literal

Kind = Literal["email", "phone", "resident_number", "card"]

EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
PHONE = re.compile(r"(?<![\d-])(?:\+82[-. ]?(?:\(0\))?[-. ]?|\(?0)(?:1[016789]|2|[3-6][1-5]|70|50\d)\)?[-. ]?\d{3,4}[-. ]?\d{4}(?![\d-])")
RESIDENT = re.compile(r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[-~ ][1-8](?:\d{6}|\*{6})(?!\d)")
CARD = re.compile(r"(?<!\d)(?<!\d-)\d{4}([- ]?)\d{4}\1\d{4}\1\d{4}(?!\d)(?!-\d)")
DIGIT = re.compile(r"\d")


def luhn(number: str) -> bool:
    """Whether the check digit of a card's number is right (ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in number if digit.isdigit()][::-1]
    total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return total > 0 and total % 10 == 0


def _zeros(found: re.Match[str]) -> str:
    return DIGIT.sub("0", found.group())


def _card(found: re.Match[str]) -> str:
    return _zeros(found) if luhn(found.group()) else found.group()


MASKS: dict[Kind, tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = {
    "email": (EMAIL, lambda _: "user@example.com"),
    "resident_number": (RESIDENT, _zeros),
    "card": (CARD, _card),
    "phone": (PHONE, _zeros),
}
"""In the order they are looked for: the longer numbers before those that look like a part of them."""


def masked(text: str, kinds: tuple[Kind, ...]) -> str:
    """`text` with digits of phone, resident and card numbers as zeros, and e-mail addresses as one that belongs to nobody (RFC 2606)."""
    for kind, (pattern, replacement) in MASKS.items():
        if kind in kinds:
            text = pattern.sub(replacement, text)
    return text
