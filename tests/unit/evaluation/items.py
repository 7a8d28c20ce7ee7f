"""Items that several tests of the evaluation look at."""

from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload, item_id


def text_item(name, *sentences):
    text, spans = "", []
    for sentence in sentences:
        spans.append((len(text), len(text) + len(sentence)))
        text += f"{sentence} "
    text = text[:-1]
    return Item(
        id=item_id(name, 0),
        modality="text",
        title=name,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [spans]),
        source=Source(uri=name),
    )
