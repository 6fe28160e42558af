"""Which licences of the data let weights be published under which licence.

Whether weights are "made from" their data in the sense of a licence is not settled anywhere. The table takes the
careful side: it reads them as if they were, so that whoever is sure of the contrary, or was permitted, has to say so in
the recipe, and the card repeats it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kobert_pipeline.errors import did_you_mean

Kind = Literal[
    "free", "named", "share-alike", "non-commercial", "non-commercial-share-alike", "no-derivatives",
    "non-commercial-no-derivatives"
]  # fmt: skip

NOT_STATED = "not stated"
"""What cards say of a source without a licence. Its folder is made, since it is the user's own disk; it is not sent
anywhere."""


@dataclass(frozen=True)
class Terms:
    """A family of licences: `pattern` is what their names look like once `normal`, with the version as a group where it
    matters."""

    title: str
    pattern: str
    kind: Kind
    model: str = ""
    """A licence that the model may then have, under the hub's name for it."""


TABLE = (
    Terms("public domain", r"public-domain|pd|publicdomain", "free"),
    Terms("CC0-1.0", r"cc0(-1\.0)?|cc-zero|unlicense|pddl(-1\.0)?", "free"),
    Terms("own", r"(my-)?own|own-work", "free"),
    Terms("CC BY 4.0", r"cc-by(-[1-4]\.[05])?(-kr)?", "named"),
    Terms("MIT", r"mit(-license)?|isc|0bsd", "named"),
    Terms("Apache-2.0", r"apache(-license)?(-2(\.0)?)?", "named"),
    Terms("BSD", r"bsd(-[234]-clause)?", "named"),
    Terms("ODC-By", r"odc-by(-1\.0)?", "named"),
    Terms("KOGL type 1", r"(kogl|공공누리)-?(type-?|제)?1(유형)?", "named"),
    # the later ones allow later versions
    Terms("CC BY-SA 1.0", r"cc-by-sa-(1\.0)(?:-kr)?", "share-alike", "cc-by-sa-1.0"),
    Terms("CC BY-SA 4.0", r"cc-by-sa(?:-([2-4]\.[05]))?(?:-kr)?", "share-alike", "cc-by-sa-4.0"),
    Terms("GFDL", r"gfdl(?:-(1\.[123]))?", "share-alike", "gfdl"),
    Terms("ODbL", r"odbl(?:-(1\.0))?", "share-alike", "odbl"),
    Terms("GPL", r"gpl(?:-v?([23](?:\.0)?))?(?:-only|-or-later)?", "share-alike", "gpl-3.0"),
    Terms("LGPL", r"lgpl(?:-v?([23](?:\.[01])?))?(?:-only|-or-later)?", "share-alike", "lgpl-3.0"),
    Terms("AGPL", r"agpl(?:-v?(3(?:\.0)?))?(?:-only|-or-later)?", "share-alike", "agpl-3.0"),
    Terms("CC BY-NC 4.0", r"cc-by-nc(-[1-4]\.[05])?(-kr)?", "non-commercial", "cc-by-nc-4.0"),
    Terms("KOGL type 2", r"(kogl|공공누리)-?(type-?|제)?2(유형)?", "non-commercial", "cc-by-nc-4.0"),
    Terms("CC BY-NC-SA 1.0", r"cc-by-nc-sa-(1\.0)(?:-kr)?", "non-commercial-share-alike", "cc-by-nc-sa-1.0"),
    Terms("CC BY-NC-SA 4.0", r"cc-by-nc-sa(?:-([2-4]\.[05]))?(?:-kr)?", "non-commercial-share-alike",
    "cc-by-nc-sa-4.0"),
    Terms("CC BY-ND 4.0", r"cc-by-nd(-[1-4]\.[05])?(-kr)?", "no-derivatives"),
    Terms("CC BY-NC-ND 4.0", r"cc-by-nc-nd(-[1-4]\.[05])?(-kr)?", "non-commercial-no-derivatives"),
    Terms("KOGL type 3", r"(kogl|공공누리)-?(type-?|제)?3(유형)?", "no-derivatives"),
    Terms("KOGL type 4", r"(kogl|공공누리)-?(type-?|제)?4(유형)?", "non-commercial-no-derivatives"),
)  # fmt: skip
"""The licences that are known. A name that is not here is refused: it may be a prohibition, or a slip of the pen in the
name of one."""

HUB = {
    "apache-2.0", "mit", "isc", "unlicense", "bsd", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "pddl", "odc-by", "odbl",
    "gfdl", "other",
    "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nd-4.0", "cc-by-nc-2.0",
    "cc-by-nc-3.0",
    "cc-by-nc-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
    "gpl", "gpl-2.0",
    "gpl-3.0", "lgpl", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "mpl-2.0", "openrail",
}  # fmt: skip
"""Licences under the hub's own names for them."""

REASONS: dict[Kind, str] = {
    "free": "asks nothing",
    "named": "asks to be named, which the card does",
    "share-alike": "wants what is made from it shared under the same licence",
    "non-commercial": "forbids commercial use",
    "non-commercial-share-alike": "forbids commercial use, and wants what is made from it shared under the same licence",
    "no-derivatives": "forbids passing on what is made from it",
    "non-commercial-no-derivatives": "forbids commercial use, and passing on what is made from it",
}


def normal(name: str) -> str:
    """A licence's name in one spelling: `CC BY-SA 3.0` and `cc-by-sa-3.0` are one."""
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


def terms_of(name: str) -> Terms | None:
    """The row of one licence, None for an unknown one."""
    return next((terms for terms in TABLE if re.fullmatch(terms.pattern, normal(name))), None)


def objections(sources: list[dict[str, str]], licence: str) -> Iterator[tuple[str, str, str]]:
    """(file, what its licence says against publishing under `licence`, what would mend it) of sources (`path`,
    `license`). A source may name several licences, parted by `/`, `,` or `;`: its parts are under one or another, so
    all of them must allow it."""
    for source in sources:
        for name in parts(source["license"]):
            terms = terms_of(name)
            if terms is None:
                known = did_you_mean(name, [one.title for one in TABLE])
                yield (
                    source["path"],
                    f"is under {name!r}, which is none of the licences that kobert knows{known}",
                    "name one of those",
                )
            elif not allows(terms, name, licence):
                mend = f"set its license to {terms.model}" if terms.model else "leave that source out"
                yield (
                    source["path"],
                    f"is under {name}, which {REASONS[terms.kind]}, and the model would be under {licence}",
                    mend,
                )


def parts(licence: str) -> list[str]:
    """The licences that an entry names; none where it states none."""
    return [part.strip() for part in re.split(r"[/,;]", licence) if part.strip()] if licence != NOT_STATED else []


def hub_name(licence: str) -> dict[str, str]:
    """A licence as the metadata of the hub's cards spell it: `license`, and the name beside `other` where the hub knows
    none of it."""
    name = normal(licence)
    return {"license": name} if name in HUB else {"license": "other", "license_name": name}


def allows(terms: Terms, name: str, licence: str) -> bool:
    """Whether data under `name` may become weights under `licence`."""
    if terms.kind in ("free", "named"):
        return True
    model = terms_of(licence)
    if terms.kind.endswith("no-derivatives") or model is None:
        return False
    if terms.kind == "non-commercial":
        return model.kind.startswith("non-commercial")
    # share-alike: the same licence, in the same version or, as those licences say, a later one
    return model.title == terms.title and version(model, licence) >= version(terms, name)


def version(terms: Terms, name: str) -> float:
    """The version that the name of a share-alike licence tells; without one any will do."""
    found = re.fullmatch(terms.pattern, normal(name))
    return float(found[1]) if found and found[1] else 0.0


def refusal(sources: list[dict[str, str]], licence: str) -> str | None:
    """The first objection as a sentence, with what to do; None where nothing is in the way."""
    for path, objection, mend in objections(sources, licence):
        return f"{path} {objection}; {mend}, or, if you may do otherwise, say why in its option `permission`, which the card repeats"
    return None


def unstated(sources: list[dict[str, str]]) -> list[str]:
    """The files of which no licence is stated."""
    return [source["path"] for source in sources if not parts(source["license"])]
