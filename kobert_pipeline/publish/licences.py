"""Whether the licences of the training data allow a model to be published under its licence.

It is not settled in law whether weights are a derivative work of their training data. This module assumes that they
are, and refuses on that assumption. Users who know better, or have permission, say so in the recipe's option
`permission`, and the model card repeats it.
"""

import re

NOT_STATED = "not stated"
"""What the model card shows as the licence of a file without one."""

UNCONDITIONAL = {
    "public-domain", "publicdomain", "pd", "cc-zero", "unlicense", "pddl", "own", "my-own", "own-work", "cc-by", "mit",
    "isc", "bsd", "bsd-clause", "apache", "odc-by", "kogl-1",
}  # fmt: skip
"""Licences that require attribution at most, which the card gives."""
OWN = {"own", "my-own", "own-work"}
"""Whoever trained the model owns the texts, which does not mean that they are public."""
COPYLEFT = {"gfdl": "gfdl", "odbl": "odbl", "gpl": "gpl-3.0", "lgpl": "lgpl-3.0", "agpl": "agpl-3.0"}
"""{share-alike licence outside Creative Commons: the licence to suggest for a model trained on such data}."""
KOGL = {"kogl-1": set[str](), "kogl-2": {"nc"}, "kogl-3": {"nd"}, "kogl-4": {"nc", "nd"}}
"""Conditions of the Korea Open Government Licence, by its types."""
COMPATIBLE = {
    (("cc-by-sa", 4.0), ("gpl", 3.0)), (("lgpl", 2.1), ("gpl", 3.0)), (("lgpl", 3.0), ("gpl", 3.0)),
}  # fmt: skip
"""(data, model): licences of another family that a share-alike licence accepts for derivatives."""
LINKS = {
    "cc-zero": "https://creativecommons.org/publicdomain/zero/1.0/", "mit": "https://opensource.org/license/mit",
    "apache": "https://www.apache.org/licenses/LICENSE-2.0", "pddl": "https://opendatacommons.org/licenses/pddl/1-0/",
    "odc-by": "https://opendatacommons.org/licenses/by/1-0/", "odbl": "https://opendatacommons.org/licenses/odbl/1-0/",
    "gfdl": "https://www.gnu.org/licenses/fdl-1.3.html", "kogl-1": "https://www.kogl.or.kr/info/license.do",
}  # fmt: skip
"""{family: the address of its text}, outside Creative Commons."""
REASONS = {
    "nc": "forbids commercial use",
    "nd": "forbids sharing what is made from it",
    "sa": "requires what is made from it to be shared under the same licence",
}
PHRASES = {
    "공공누리": "kogl", "상업적 이용금지": "nc", "상업적 이용 금지": "nc", "상업적이용금지": "nc", "비영리": "nc",
    "변경금지": "nd", "변경 금지": "nd", "동일조건변경허락": "sa", "출처표시": "by", "저작자표시": "by",
    "creative commons": "cc", "attribution": "by", "non commercial": "nc", "noncommercial": "nc",
    "no commercial use": "nc", "no derivatives": "nd", "noderivatives": "nd", "noderivs": "nd", "share alike": "sa",
    "sharealike": "sa", "cc0": "cc zero",
}  # fmt: skip
"""Other spellings of the words that matter."""
IGNORED_WORDS = {"v", "kr", "korea", "international", "unported", "deed", "license", "licence", "only", "or", "later",
                 "gnu", "type"}  # fmt: skip
HUB_NAMES = {
    "apache-2.0", "mit", "isc", "unlicense", "bsd", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "pddl", "odc-by", "odbl",
    "gfdl", "other", "openrail", "mpl-2.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0",
    "cc-by-sa-4.0", "cc-by-nd-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-sa-2.0",
    "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "gpl", "gpl-2.0", "gpl-3.0", "lgpl",
    "lgpl-2.1", "lgpl-3.0", "agpl-3.0",
}  # fmt: skip


def file_row(path: str, license: str | None, use: str) -> dict[str, str]:
    """A row of a model card's table of source files."""
    return {"path": path, "license": license or NOT_STATED, "use": use}


def refusal(sources: list[dict[str, str]], licence: str) -> str | None:
    """Why a model under `licence` must not be published, and what to do, in one sentence; None if nothing forbids it.
    `sources` have `path` and `license`. A licence that is missing or unknown forbids nothing; the card warns of it."""
    for source in sources:
        for name in split_names(source["license"]):
            if allows(name, licence):
                continue
            found = conditions(name) or set()
            reasons = " and ".join(reason for condition, reason in REASONS.items() if condition in found)
            fix = "leave that source out" if "nd" in found else f"set its license to {suggestion(name)}"
            return (
                f"{source['path']} is under {name}, which {reasons}, and the model would be under {licence}; {fix}, "
                "or, if you may publish it all the same, say why in its option `permission`, which the card repeats"
            )
    return None


def allows(data: str, model: str) -> bool:
    """Whether data under one licence may become weights under another."""
    required, granted = conditions(data), conditions(model)
    if not required:
        return True
    # weights count as a derivative, which "nd" forbids under any licence; an unknown licence may permit anything
    if "nd" in required or granted is None:
        return False
    if "sa" not in required:
        return "nc" in granted
    if (parse(data), parse(model)) in COMPATIBLE:
        return True
    (family, version), (model_family, model_version) = parse(data), parse(model)
    if family != model_family:
        return False
    if model_version is None:  # gfdl and odbl have no version on the Hub, Creative Commons always has
        return family in COPYLEFT
    # share-alike licences accept their own later versions, except the first of Creative Commons
    later = family in COPYLEFT or version != 1.0
    return model_version >= (version or 0.0) if later else model_version == version


def allows_quoting(licence: str) -> bool:
    """Whether a text under this licence may be shown in a model card. Cautious: not where a licence is unknown, forbids
    derivatives or commercial use, or is the publisher's own."""
    names = split_names(licence)
    found = [conditions(name) for name in names]
    own = any(parse(name)[0] in OWN for name in names)
    return bool(names) and not own and all(one is not None and not one & {"nd", "nc"} for one in found)


def link(name: str) -> str | None:
    """The address of a licence's text; None for one that has no known address."""
    family, version = parse(name)
    if family.startswith("cc-by") and version:
        # the ported licences of a country have addresses of their own
        port = "kr/" if re.search(r"\bkr\b|korea", name.casefold()) and version < 4 else ""
        return f"https://creativecommons.org/licenses/{family.removeprefix('cc-')}/{version}/{port}"
    return LINKS.get(family)


def suggestion(name: str) -> str:
    """A licence for a model trained on data under the licence `name`, which does not forbid derivatives."""
    family, version = parse(name)
    if family in COPYLEFT:
        return COPYLEFT[family]
    return "-".join(word for word in ("cc", "by", "nc", "sa") if word in {"cc", "by"} | (conditions(name) or set())) + (
        "-1.0" if version == 1.0 and "sa" in family else "-4.0"
    )


def conditions(name: str) -> set[str] | None:
    """What a licence restricts: "nc" commercial use, "nd" derivatives, "sa" the licence of derivatives; None for an
    unknown licence."""
    family, _ = parse(name)
    words = set(words_of(name))
    # looked for in the whole name, so that no unusual spelling hides a condition
    found = {"nc", "nd", "sa"} & words | ({"sa"} if words & set(COPYLEFT) else set()) | KOGL.get(family, set())
    return found or (set() if family in UNCONDITIONAL else None)


def parse(name: str) -> tuple[str, float | None]:
    """A licence's family and version, ("cc-by-sa", 2.0) for `CC BY-SA 2.0 KR`; None where the name has no version."""
    words = words_of(name)
    numbers = [word for word in words if word[0].isdigit()]
    if "kogl" in words:
        return f"kogl-{numbers[0] if numbers else ''}", None
    version = float(numbers[0]) if numbers else None
    copyleft = next((word for word in words if word in COPYLEFT), None)
    return copyleft or "-".join(word for word in words if word not in numbers), version


def words_of(name: str) -> list[str]:
    """The words and numbers of a licence's name that matter: `GNU GPLv3` and `gpl_3` are gpl, 3."""
    text = " ".join(re.sub(r"[\s_\u2010-\u2015-]+", " ", name.casefold()).split())
    for phrase, word in PHRASES.items():
        text = text.replace(phrase, f" {word} ")
    # the v of gplv3 belongs to its number
    words = re.findall(r"[a-z]+?(?=v?\d)|[a-z]+|\d+(?:\.\d+)?", text)
    return [word for word in words if word not in IGNORED_WORDS]


def normalized(name: str) -> str:
    """A name in lower case with "-" between its words: `CC BY-SA 3.0` and `cc_by_sa 3.0` become `cc-by-sa-3.0`."""
    return "-".join(name.casefold().replace("-", " ").replace("_", " ").split())


def split_names(licence: str) -> list[str]:
    """The names in an entry such as `CC BY-SA 4.0 / MIT`, which all apply; [] where no licence is stated."""
    names = re.split(r"[/;,](?![^(]*\))", licence)  # not at a comma in brackets
    return [name.strip() for name in names if name.strip()] if licence != NOT_STATED else []


def without_known_licence(sources: list[dict[str, str]]) -> list[str]:
    """The paths of the sources whose licence is not stated or not known."""
    names = [(source["path"], split_names(source["license"])) for source in sources]
    return [path for path, stated in names if not stated or None in map(conditions, stated)]


def hub_name(licence: str) -> dict[str, str]:
    """The card metadata of a licence: `license`, and `license_name` where the Hub has no name of its own for it."""
    name = normalized(licence)
    return {"license": name} if name in HUB_NAMES else {"license": "other", "license_name": name}
