"""Base classes of all options: frozen pydantic models whose fields are the keys of a recipe.

The docstring under a field is its help. A `Plugin` is a set of options that is also a variant of a family: a file in
the family's folder, chosen by `name`. No list of variants is kept anywhere; the folder itself is the list.
"""

import importlib
import pkgutil
import re
from collections.abc import Mapping
from operator import itemgetter
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from kobert_pipeline.errors import UserError, did_you_mean

# every random generator in use accepts 32 bits, also multiplied by a rank
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""A random seed."""


class Options(BaseModel):
    """Frozen options. An unknown key is an error that suggests the nearest name, or the group that has it."""

    # without pydantic's attribute docstrings, which it reads from the source of every class at import: a tenth of the
    # time to a first answer; `plugins.docstrings` reads them where they are shown
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        unknown = list[str]()
        for key in values:
            if key in cls.model_fields:
                continue
            if groups := cls._groups_with(str(key)):
                guesses = " or ".join(f"'{group}.{key}'" for group in groups)
                hint = f" - did you mean {guesses}?{did_you_mean('', cls.model_fields)}"
            else:
                hint = did_you_mean(str(key), cls.model_fields)
            unknown.append(f"unknown key '{key!s:.60}'{hint}")
        if unknown:
            raise PydanticCustomError("unknown_key", "{message}", {"message": "; ".join(unknown)})
        return {key: cls._with_default_name(key, value) for key, value in values.items()}

    @classmethod
    def _with_default_name(cls, key: str, value: Any) -> Any:
        """The value of an option. Options of a plug-in without its name belong to the default plug-in, if it has
        them."""
        default = cls.model_fields[key].default
        if isinstance(default, Plugin) and isinstance(value, Mapping) and "name" not in value:
            return {"name": default.name, **value} if set(value) <= set(type(default).model_fields) else value
        return value

    @classmethod
    def _groups_with(cls, key: str) -> list[str]:
        """The groups of options in this class that have the option `key`; groups that may be null come last."""
        # in lists and dicts of groups a number or a name precedes the option, and what options a plug-in has depends on
        # the variant
        groups = [
            (get_origin(option.annotation) is not None, name)
            for name, option in cls.model_fields.items()
            if get_origin(option.annotation) in (None, Union, UnionType)
            for group in option_classes(option.annotation)
            if not issubclass(group, Plugin) and key in group.model_fields
        ]
        return [name for _, name in sorted(groups, key=itemgetter(0))]

    def dump(self) -> dict[str, Any]:
        """The options as JSON values, for fingerprints and manifests."""
        return self.model_dump(mode="json")


def option_classes(annotation: Any) -> list[type[Options]]:
    """The option classes inside a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return [annotation]
    return [options for part in get_args(annotation) for options in option_classes(part)]


class Plugin(Options):
    """A variant of a family of plug-ins, such as one reader or one architecture.

    An abstract contract class sets `family`, the name of the folder next to it; each module in that folder defines
    exactly one subclass.
    """

    family: ClassVar[str] = ""
    name: str

    @classmethod
    def is_contract(cls) -> bool:
        """Whether this is a family's contract class, and not a variant."""
        # looked up in this class only: variants inherit `family`
        return bool(cls.__dict__.get("family"))

    @classmethod
    def package(cls) -> str:
        """Import path of the family's folder."""
        return f"{cls.__module__.rpartition('.')[0]}.{cls.family}"

    @classmethod
    def names(cls) -> list[str]:
        """The names of all variants, without importing them: some need optional libraries."""
        folder = importlib.import_module(cls.package())
        return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))

    @classmethod
    def variant(cls, name: str) -> type[Self]:
        """The class that the module `name` defines. Raises UserError for an unknown name."""
        if name not in cls.names():
            raise UserError(f"there is no {name!r} among the {cls.family}{did_you_mean(name, cls.names())}")
        module = importlib.import_module(f"{cls.package()}.{name}")
        # the contract, and other variants that the module imports, have another `__module__`
        plugins = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, cls) and value.__module__ == module.__name__
        ]
        if len(plugins) != 1:
            raise TypeError(f"{module.__name__} must define one {cls.__name__}, it defines {len(plugins)}")
        return plugins[0]

    @classmethod
    def choose(cls, value: Any) -> Self:
        """A variant from its name, from `{"name": ..., option: ...}`, or an instance as it is."""
        if isinstance(value, cls):
            return value
        options = {"name": value} if isinstance(value, str) else value
        if not isinstance(options, Mapping) or not isinstance(options.get("name"), str):
            raise PydanticCustomError(
                "plugin", "{message}", {"message": f"needs a name from the {cls.family}: {', '.join(cls.names())}"}
            )
        try:
            return cls.variant(options["name"]).model_validate(options)
        except UserError as error:
            raise PydanticCustomError("plugin", "{message}", {"message": str(error)}) from None
        except ValidationError as error:
            kind = "plugin_option" if error.errors()[0]["loc"] else "plugin"
            raise PydanticCustomError(kind, "{message}", {"message": errors_of(error)[0]}) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if not cls.is_contract():
            return super().__get_pydantic_core_schema__(source, handler)
        # A field annotated with the contract accepts any variant, which only `choose` can find: pydantic's own unions
        # would need all variants imported.
        return core_schema.no_info_plain_validator_function(
            cls.choose,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump(mode="json")),
        )


TYPE_NAME = re.compile(r"str|int|float|bool|none|(list|dict|set|tuple|literal|function-[a-z]+)\[.*\]")
"""What pydantic adds to the place of an error for each type that an option may have; nothing that a user wrote."""


def _place(error: ErrorDetails) -> list[str]:
    """The keys that lead to an error, without the names of types."""
    return [str(part) for part in error["loc"] if not TYPE_NAME.fullmatch(str(part))]


def errors_of(error: ValidationError) -> list[str]:
    """The errors of a validation, each as `key.key: what is wrong`."""
    left, told = error.errors(), list[str]()
    while left:
        path = _place(left[0])
        told.append(_told([entry for entry in left if _place(entry)[: len(path)] == path]))
        left = [entry for entry in left if _place(entry)[: len(path)] != path]
    return told


def _told(errors: list[ErrorDetails]) -> str:
    """The errors about one value in words."""
    # a value that fits none of several types has an error for each; the deepest is of the type that fits it best
    first = max(errors, key=lambda entry: len(_place(entry)))
    where = ".".join(_place(first))
    what = first["msg"]
    match first["type"]:
        case "missing":
            what = "is missing"
        case "value_error":
            what = str(first["ctx"]["error"])
        case "plugin_option":  # its message starts with the name of the plug-in's option: join the two names
            return f"{where}.{what}" if where else what
        case "unknown_key" | "plugin":
            pass
        case "too_short":
            what = "needs at least one entry"
        case "int_parsing" | "float_parsing" | "bool_parsing":  # ..., unable to parse string as an integer
            what = f"{what.partition(',')[0].lower()}, not {first['input']!r:.60}"
        case _:
            # pydantic names the type of Python; in a recipe it is a list
            what = what.replace("a valid tuple", "a list").replace("a valid list", "a list")
            what = f"{what[0].lower()}{what[1:]}, not {first['input']!r:.60}"
            if first["type"] in ("string_type", "literal_error") and isinstance(first["input"], bool):
                what += "; YAML reads no, off, yes and on as False and True, so put such a name in quotes"
    return f"{where}: {what}" if where else what
