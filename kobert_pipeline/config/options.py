"""Options live with their owner: a frozen model whose fields are the YAML keys and whose docstring under a field is its
help.

A `Plugin` is an option that is also a variant: one file in a family's folder, picked by `name`. Nothing lists the
variants but the folder itself.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kobert_pipeline.errors import UserError, did_you_mean

Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""Another one, another draw. All generators take numbers of this size, and products of them with the number of a
process."""


RENAMED = {
    "batch_pieces": "batch_tokens",
    "duplicates": "dupe_factor",
    "engine": "executor",
    "formed": "sequence_format",
    "layer_decay": "layerwise_lr_decay",
    "logits_rows": "logits_chunk_size",
    "mask_rate": "mlm_probability",
    "max_answer_pieces": "max_answer_tokens",
    "max_question_pieces": "max_question_tokens",
    "pieces": "total_tokens",
    "short_share": "short_seq_prob",
    "weights": "init",
    "whole": "mask_unit",
}
"""Options that had another name in 0.1, so that an old recipe is refused with the new name."""


class Options(BaseModel):
    """Frozen options; an unknown key is refused with a guess, or with the name that it has now."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            for key in given:
                if key not in cls.model_fields:
                    new = RENAMED.get(str(key))
                    hint = (
                        f"; it is called '{new}' now"
                        if new in cls.model_fields
                        else did_you_mean(str(key), cls.model_fields)
                    )
                    raise PydanticCustomError(
                        "unknown_key", "{message}", {"message": f"unknown key '{key!s:.60}'{hint}"}
                    )
        return given

    def dump(self) -> dict[str, Any]:
        """The options as JSON values, for fingerprints and manifests."""
        return self.model_dump(mode="json")


class Plugin(Options):
    """A variant of a family. The contract class names the `family` (the folder beside it); each file there holds one
    subclass."""

    family: ClassVar[str] = ""
    name: str

    @classmethod
    def is_contract(cls) -> bool:
        """Whether this is the class that a family's files subclass."""
        return bool(cls.__dict__.get("family"))

    @classmethod
    def package(cls) -> str:
        """Import path of the family's folder."""
        return f"{cls.__module__.rpartition('.')[0]}.{cls.family}"

    @classmethod
    def names(cls) -> list[str]:
        """The variants there are, without importing them."""
        folder = importlib.import_module(cls.package())
        return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))

    @classmethod
    def variant(cls, name: str) -> type[Self]:
        """The class in the file `name`. Raises UserError for a name without a file."""
        if name not in cls.names():
            raise UserError(f"there is no {name!r} among the {cls.family}{did_you_mean(name, cls.names())}")
        module = importlib.import_module(f"{cls.package()}.{name}")
        found = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, cls) and value.__module__ == module.__name__
        ]
        if len(found) != 1:
            raise TypeError(f"{module.__name__} must define one {cls.__name__}, it defines {len(found)}")
        return found[0]

    @classmethod
    def choose(cls, given: Any) -> Self:
        """A variant from `name`, `{"name": ..., option: ...}` or an instance."""
        if isinstance(given, cls):
            return given
        given = {"name": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
            raise PydanticCustomError(
                "plugin", "{message}", {"message": f"needs a name from the {cls.family}: {', '.join(cls.names())}"}
            )
        try:
            return cls.variant(given["name"]).model_validate(given)
        except UserError as error:
            raise PydanticCustomError("plugin", "{message}", {"message": str(error)}) from None
        except ValidationError as error:
            kind = "plugin_option" if error.errors()[0]["loc"] else "plugin"
            raise PydanticCustomError(kind, "{message}", {"message": first_error(error)}) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if not cls.is_contract():
            return super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_plain_validator_function(
            cls.choose,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump(mode="json")),
        )


def first_error(error: ValidationError) -> str:
    """The first complaint of a validation, as `key.key: what is wrong`."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    what = first["msg"]
    match first["type"]:
        case "missing":
            what = "is missing"
        case "value_error":
            what = str(first["ctx"]["error"])
        case "plugin_option":  # it begins with the option's name below the plug-in
            return f"{where}.{what}" if where else what
        case "unknown_key" | "plugin":
            pass
        case "too_short":
            what = "needs at least one entry"
        case _:
            what = f"{what[0].lower()}{what[1:]}, not {first['input']!r:.60}"
    return f"{where}: {what}" if where else what
