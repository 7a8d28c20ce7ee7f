from __future__ import annotations

import pytest

from canopy_rag.text import looks_non_english


@pytest.mark.parametrize(
    "text",
    [
        "这是一个句子，没有英文。",
        "これは日本語です。",
        "هذا نص باللغة العربية",
        "זה טקסט בעברית",
        "นี่คือข้อความภาษาไทย",
        "Это предложение на русском языке.",
        "Der Hund und die Katze sind nicht im Haus, aber sie kommen mit dem Mann.",
        "Le chat et le chien ne sont pas dans la maison de la femme.",
        "El perro y el gato no están en la casa de la mujer que vive aquí.",
        "Il cane e il gatto non sono nella casa della donna che abita qui.",
        "De hond en de kat zijn niet in het huis van de vrouw met een hoed.",
    ],
)
def test_other_languages_are_recognised(text: str) -> None:
    assert looks_non_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12.5 %",
        "Der Spiegel",
        "The cat sat on the mat because it was tired of all that running.",
        "The Chinese word 你好 means hello, and it is used by most speakers of the language.",
        "Île-de-France is a region of France in which the city of Paris lies.",
        "Total Revenue Cost Margin Profit Loss Assets Debt Equity Cash Flow",
    ],
)
def test_english_and_texts_too_short_to_tell_pass(text: str) -> None:
    assert not looks_non_english(text)
