"""Personal data (e-mail addresses, phone, resident registration and card numbers), replaced by neutral text of the same
shape."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal

Kind = Literal["email", "phone", "resident_number", "card"]

# at most 64 characters before the @, as in RFC 5321; with this limit and no backtracking they take linear time
EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
BETWEEN = r"(?: ?[-.] ?| ?)"
AREA = r"(?:1[016789]|2|[3-6][1-5]|[78]0|50\d)"
"""After the 0 or +82: mobile (10, 11, 16 to 19), Seoul (2), other areas (31 to 65), internet (70), free of charge (80)
and virtual (50x)."""
SERVICE = (
    r"(?P<service>15(?:22|33|44|51|66|77|88|99)|16(?:00|11|44|55|6[01268]|70|88)|18(?:00|11|22|33|44|55|66|77|99))"
)
"""Nationwide numbers of firms, such as 1588-1234."""
# a single letter after the last digit makes it the number of a product (010-2000-3000X)
PHONE = re.compile(
    # after a digit, or a digit and a hyphen, it would be the end of a longer number (123-010-1234-5678)
    rf"(?<!\d)(?<!\d-)(?:(?:\+82{BETWEEN}(?:\(0\))?{BETWEEN}|\(?0){AREA}\)?{BETWEEN}\d{{3,4}}{BETWEEN}"
    rf"|{SERVICE} ?[-.] ?)(?P<last>\d{{4}})(?!\d|-\d|[A-Za-z](?![A-Za-z]))"
)
LONGEST_PERIOD = 200
"""Years. 1588-1592 is a period, as two numbers of years no further apart are."""
LAST_YEAR = 2100
YEAR_AFTER = re.compile(r" ?[년年](?!중)")
"""After the numbers of a longer period, 1644-1911년; not 년중무휴, which follows phone numbers."""
BEFORE_CHRIST = re.compile(r"(?:기원전|서기전) ?(?:약 ?)?$")
"""Before the numbers of a period that counts down, 기원전 1800-1650. Not BC, which is also a bank with phones."""
# birth date (YYMMDD), then sex and century (1 to 8), then six digits, which may be masked already
RESIDENT = re.compile(r"(?<!\d)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?: ?[-~] ?| ?)[1-8](?:\d{6}|\*{6})(?!\d)")
CARD = re.compile(r"(?<!\d)(?<!\d-)\d{4}( ?- ?| ?)\d{4}\1\d{4}\1\d{4}(?!\d)(?!-\d)")
DIGIT = re.compile(r"\d")
NARROW = {code + 0xFEE0: code for code in range(0x21, 0x7F)} | dict.fromkeys(
    (0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212), 0x2D
)
"""Full-width characters and all kinds of dashes -> ASCII, one for one, so that matches keep their offsets."""


def luhn(card_number: str) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in card_number if digit.isdigit()][::-1]
    total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    # zeros pass the check, too, and a number that is masked already would be masked and counted again
    return total > 0 and total % 10 == 0


def _zeros(match: re.Match[str]) -> str:
    return DIGIT.sub("0", match.group())


def _card(match: re.Match[str]) -> str | None:
    return _zeros(match) if luhn(match.group()) else None


def _phone(match: re.Match[str]) -> str | None:
    return None if match["service"] and _is_period(match) else _zeros(match)


def _is_period(match: re.Match[str]) -> bool:
    """Whether the number of a firm may be two years."""
    first, last = int(match["service"]), int(match["last"])
    if first <= last:
        is_year = last <= LAST_YEAR and YEAR_AFTER.match(match.string, match.end())
        return last - first <= LONGEST_PERIOD or bool(is_year)
    # more characters than the pattern matches; searching all of the text before each number would be quadratic
    return bool(BEFORE_CHRIST.search(match.string[max(0, match.start() - 10) : match.start()]))


MASKS: dict[Kind, tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]] = {
    "email": (EMAIL, lambda _: "user@example.com"),
    "resident_number": (RESIDENT, _zeros),
    "card": (CARD, _card),
    "phone": (PHONE, _phone),
}
"""Kind -> pattern and replacement, which keeps the text where it is None. In this order, because a part of a longer
number may look like a shorter one."""


def redact(text: str, kinds: tuple[Kind, ...], counts: Counter[str] | None = None) -> str:
    """`text` with the digits of phone, resident and card numbers replaced by 0, and e-mail addresses by one of a
    reserved domain (RFC 2606), as far as `kinds` names them. `counts` gets the number of replacements as
    `masked_KIND`."""
    for kind, (pattern, replacement) in MASKS.items():
        if kind in kinds:
            text, replaced = _replaced(text, pattern, replacement)
            if replaced and counts is not None:
                counts[f"masked_{kind}"] += replaced
    return text


def _replaced(
    text: str, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str | None]
) -> tuple[str, int]:
    """The text with replacements, and their number."""
    parts, end = [], 0
    # searched in the ASCII form, copied from the text as given: both have the same length
    for match in pattern.finditer(text.translate(NARROW)):
        if (redacted := replacement(match)) is not None:
            parts += [text[end : match.start()], redacted]
            end = match.end()
    return ("".join([*parts, text[end:]]), len(parts) // 2) if parts else (text, 0)
