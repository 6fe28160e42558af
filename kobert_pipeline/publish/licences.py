"""Whether the licences of the training data allow a model to be published under its licence.

It is not settled in law whether weights are a derivative work of their training data. This module assumes that they
are, and refuses on that assumption. Users who know better, or have permission, say so in the recipe's option
`permission`, and the model card repeats it. Licences are known by their ids of SPDX or of the Hub.
"""

import re

LICENSE_FILE = "LICENSE"
"""The licence of the code in a published folder, beside it."""
NOT_STATED = "not stated"
"""What the model card shows as the licence of a file without one."""

CREATIVE_COMMONS = re.compile(r"(cc-by(?:-nc|-nd|-sa)*)(?:-(\d\.\d)(-kr)?)?")
"""Ids of Creative Commons licences. They name the conditions: "nc" forbids commercial use, "nd" derivatives, "sa"
requires the same licence of derivatives."""
OWN = {"own", "my-own"}
"""Whoever trained the model owns the texts, which does not mean that they are public."""
ATTRIBUTION = {
    *OWN, "public-domain", "cc0", "cc0-1.0", "unlicense", "pddl", "mit", "isc", "bsd", "0bsd", "bsd-2-clause",
    "bsd-3-clause", "apache-2.0", "odc-by", "kogl-1",
}  # fmt: skip
"""Licences that require attribution at most, which the card gives."""
COPYLEFT = {"gfdl", "odbl", "gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "agpl-3.0"}
"""Share-alike licences outside Creative Commons: what is made from such data is under the same one."""
KOGL = {"kogl-2": {"nc"}, "kogl-3": {"nd"}, "kogl-4": {"nc", "nd"}}
"""Conditions of the Korea Open Government Licence (공공누리), by its types; SPDX has no ids of it."""
LINKS = {
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/", "mit": "https://opensource.org/license/mit",
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0", "kogl-1": "https://www.kogl.or.kr/info/license.do",
}  # fmt: skip
"""{id: the address of its text}, outside Creative Commons."""
REASONS = {
    "nc": "forbids commercial use",
    "nd": "forbids sharing what is made from it",
    "sa": "requires what is made from it to be shared under the same licence",
}
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
            required = conditions(name) or set()
            reasons = " and ".join(reason for condition, reason in REASONS.items() if condition in required)
            fix = "leave that source out" if "nd" in required else f"set its license to {suggestion(name)}"
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
        # "nc" is all that is left in `required`
        return "nc" in granted
    of_data, of_model = (CREATIVE_COMMONS.fullmatch(identifier(name)) for name in (data, model))
    if of_data and of_model:  # later versions are accepted, too, but 1.0 names none
        # versions have one digit before and after the dot, so that they compare as texts
        versions = [match[2] or "" for match in (of_data, of_model)]
        return of_data[1] == of_model[1] and (
            versions[0] == versions[1] or (versions[0] != "1.0" and versions[0] < versions[1])
        )
    return identifier(data) == identifier(model)


def allows_quoting(licence: str) -> bool:
    """Whether a text under this licence may be shown in a model card. Cautious: not where a licence is unknown, forbids
    derivatives or commercial use, or is the publisher's own."""
    names = split_names(licence)
    allowed = [required is not None and not required & {"nd", "nc"} for required in map(conditions, names)]
    return bool(names) and all(allowed) and not OWN & set(map(identifier, names))


def link(name: str) -> str | None:
    """The address of a licence's text; None for one that has no known address."""
    if (creative_commons := CREATIVE_COMMONS.fullmatch(identifier(name))) and creative_commons[2]:
        family, version, country = creative_commons.groups(default="")
        port = f"{country.removeprefix('-')}/" if country else ""
        return f"https://creativecommons.org/licenses/{family.removeprefix('cc-')}/{version}/{port}"
    return LINKS.get(identifier(name))


def suggestion(name: str) -> str:
    """A licence for a model trained on data under the licence `name`, which does not forbid derivatives."""
    # version 1.0 of Creative Commons accepts no later one, and so not the 4.0 below
    if identifier(name) in COPYLEFT or identifier(name).endswith("sa-1.0"):
        return identifier(name)
    required = conditions(name) or set()
    return "-".join(["cc-by", *(word for word in ("nc", "sa") if word in required), "4.0"])


def conditions(name: str) -> set[str] | None:
    """What a licence restricts: "nc" commercial use, "nd" derivatives, "sa" the licence of derivatives; None for an
    unknown licence."""
    licence = identifier(name)
    if CREATIVE_COMMONS.fullmatch(licence):
        return {"nc", "nd", "sa"} & set(licence.split("-"))
    if licence in COPYLEFT:
        return {"sa"}
    return set() if licence in ATTRIBUTION else KOGL.get(licence)


def identifier(name: str) -> str:
    """The id of a licence in lower case: cc-by-sa-3.0 for `CC BY-SA 3.0`, gpl-3.0 for `GPL-3.0-or-later`, kogl-1 for
    `공공누리 제1유형`."""
    licence = re.sub(r"-(only|or-later)$", "", normalized(name))
    # SPDX names the version of these, the Hub does not
    licence = re.sub(r"^(gfdl|odbl|pddl|odc-by)-1\.\d$", r"\1", licence)
    kogl = re.match(r"(?:kogl|공공누리)-?(?:type-|제)?([1-4])", licence)
    return f"kogl-{kogl[1]}" if kogl else licence


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
