"""Whether the licences of the training data allow a model to be published under its licence.

It is not settled in law whether weights are a derivative work of their training data. This module assumes that they
are, and refuses on that assumption. Users who know better, or have permission, say so in the recipe's option
`permission`, and the model card repeats it.
"""

NOT_STATED = "not stated"
"""What the model card shows as the licence of a file without one."""

UNCONDITIONAL = {
    "public-domain", "publicdomain", "pd", "cc0", "cc-zero", "unlicense", "pddl", "own", "my-own", "own-work", "cc-by",
    "mit", "isc", "0bsd", "apache", "bsd", "bsd-2-clause", "bsd-3-clause", "bsd-4-clause", "odc-by", "kogl-1",
}  # fmt: skip
"""Licences that require attribution at most, which the card gives."""
SHARE_ALIKE = {
    "cc-by-sa": "cc-by-sa-4.0", "cc-by-nc-sa": "cc-by-nc-sa-4.0", "gfdl": "gfdl", "odbl": "odbl", "gpl": "gpl-3.0",
    "lgpl": "lgpl-3.0", "agpl": "agpl-3.0",
}  # fmt: skip
"""{share-alike licence: the licence to suggest for a model trained on such data}."""
COMPATIBLE = {
    (("cc-by-sa", 4.0), ("gpl", 3.0)), (("lgpl", 2.1), ("gpl", 3.0)), (("lgpl", 3.0), ("gpl", 3.0)),
}  # fmt: skip
"""(data, model): licences of another family that a share-alike licence accepts for derivatives."""
CONDITIONS: dict[str, set[str]] = {
    **{name: set() for name in UNCONDITIONAL}, **{name: {"sa"} for name in SHARE_ALIKE},
    "kogl-2": {"nc"}, "kogl-3": {"nd"}, "kogl-4": {"nc", "nd"},
}  # fmt: skip
REASONS = {
    "nc": "forbids commercial use",
    "nd": "forbids sharing what is made from it",
    "sa": "requires what is made from it to be shared under the same licence",
}
IGNORED_WORDS = {"kr", "korea", "international", "unported", "license", "licence", "only", "or", "later"}
HUB_NAMES = {
    "apache-2.0", "mit", "isc", "unlicense", "bsd", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "pddl", "odc-by", "odbl",
    "gfdl", "other", "openrail", "mpl-2.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0",
    "cc-by-sa-4.0", "cc-by-nd-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-sa-2.0",
    "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "gpl", "gpl-2.0", "gpl-3.0", "lgpl",
    "lgpl-2.1", "lgpl-3.0", "agpl-3.0",
}  # fmt: skip


def refusal(sources: list[dict[str, str]], licence: str) -> str | None:
    """Why a model under `licence` must not be published, and what to do, in one sentence; None if nothing forbids it.
    `sources` have `path` and `license`. A licence that is missing or unknown forbids nothing; the card warns of it."""
    for source in sources:
        for name in split_names(source["license"]):
            if allows(name, licence):
                continue
            found = conditions(name) or set()
            reasons = " and ".join(reason for condition, reason in REASONS.items() if condition in found)
            fix = f"set its license to {SHARE_ALIKE.get(parse(name)[0], 'cc-by-nc-4.0')}"
            return (
                f"{source['path']} is under {name}, which {reasons}, and the model would be under {licence}; "
                f"{'leave that source out' if 'nd' in found else fix}, or, if you may publish it all the same, say "
                "why in its option `permission`, which the card repeats"
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
    # share-alike licences accept their own later versions; a name without a version means any version
    (family, version), (model_family, model_version) = parse(data), parse(model)
    return model_family == family and (model_version is None or model_version >= (version or 0))


def conditions(name: str) -> set[str] | None:
    """What a licence restricts: "nc" commercial use, "nd" derivatives, "sa" the licence of derivatives; None for an
    unknown licence."""
    family, _ = parse(name)
    # Creative Commons puts the conditions into the name, so they are seen in unusual spellings, too
    return {"nc", "nd", "sa"} & set(family.split("-")) or CONDITIONS.get(family)


def parse(name: str) -> tuple[str, float | None]:
    """A licence's family and version, ("cc-by-sa", 2.0) for `CC BY-SA 2.0 KR`; None where the name has no version."""
    # `공공누리 제1유형`, `KOGL type 1` and `KOGL1` become kogl-1
    name = name.casefold().replace("공공누리", "kogl").replace("kogl", "kogl ")
    name = normalized(name.replace("제", " ").replace("유형", " ").replace("type", " "))
    words = [word for word in name.split("-") if word not in IGNORED_WORDS]
    numbers = [word for word in words if word.removeprefix("v").replace(".", "", 1).isdecimal()]
    if "-".join(words) in CONDITIONS or not numbers:  # the numbers of kogl-1 and bsd-3-clause are not versions
        return "-".join(words), None
    return "-".join(word for word in words if word not in numbers), float(numbers[0].removeprefix("v"))


def normalized(name: str) -> str:
    """A name in lower case with "-" between its words: `CC BY-SA 3.0` and `cc_by_sa 3.0` become `cc-by-sa-3.0`."""
    return "-".join(name.casefold().replace("-", " ").replace("_", " ").split())


def split_names(licence: str) -> list[str]:
    """The names in an entry such as `CC BY-SA 4.0 / MIT`, which all apply; [] where no licence is stated."""
    names = licence.replace(",", "/").replace(";", "/").split("/")
    return [name.strip() for name in names if name.strip()] if licence != NOT_STATED else []


def without_known_licence(sources: list[dict[str, str]]) -> list[str]:
    """The paths of the sources whose licence is not stated or not known."""
    names = [(source["path"], split_names(source["license"])) for source in sources]
    return [path for path, stated in names if not stated or None in map(conditions, stated)]


def hub_name(licence: str) -> dict[str, str]:
    """The card metadata of a licence: `license`, and `license_name` where the Hub has no name of its own for it."""
    name = normalized(licence)
    return {"license": name} if name in HUB_NAMES else {"license": "other", "license_name": name}
