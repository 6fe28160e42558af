"""Your own spans: entities of any types, given by offsets or by tags of tokens, in the forms of annotation tools and
data sets. No code is needed."""

from typing import Literal

from kobert_pipeline.features.entity_rows import EntityColumns
from kobert_pipeline.features.tagging import TaggingTask


class Tagging(TaggingTask):
    """Texts with entities of any types, or tokens with tags: doccano, Label Studio, the Modu corpora, `datasets`, and
    the files of the task ner. Known columns: text (or sentence), entities (or label); tokens, tags.

    An entity is `{start, end, label}` or `[start, end, label]`, in characters from 0; a tag is B-X, I-X or O, or X
    alone, where neighbours with the same tag are one span."""

    name: Literal["tagging"] = "tagging"
    id: str | None = None
    """Column of an example's id; null: guid or id where there is one, else the row number, from 1."""
    text: str | None = None
    """Column of the text; null: recognized by its name. A dot leads into an object, as in data.text."""
    entities: str | None = None
    """Column of the entities in the text; null: recognized by its name and values. Where the file has none, tokens and
    tags are read."""
    tokens: str | None = None
    """Column of the tokens; null: tokens or words."""
    tags: str | None = None
    """Column of the tags of the tokens, or of the text's eojeols; null: recognized by its name and values."""
    tag_names: list[str] | None = None
    """The names of the tags 0, 1, ..., where tags are numbers; null: KLUE-NER's, if the numbers fit them."""
    separator: str = " "
    """Text between two tokens; nothing is added where white space is among the tokens."""

    def columns(self) -> EntityColumns:
        """The columns of tables, as far as options name them."""
        return EntityColumns(self.id, self.text, self.entities, self.tokens, self.tags, self.tag_names, self.separator)
