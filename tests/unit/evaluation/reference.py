"""The published rules of the official scripts, written out slowly and apart from the library.

Word by word and character by character, with lists in place of counters and all orders tried in
place of an assignment solver, so that it shares neither code nor shortcuts with what it checks.
"""

from __future__ import annotations

import itertools
import math
import re
import string

import numpy as np

ARTICLES = ("a", "an", "the")


def is_word_character(character):
    return character.isalnum() or character == "_"


def replace_articles(text):
    """Put a blank in place of each article that has no word character beside it."""
    out, at = "", 0
    while at < len(text):
        for article in ARTICLES:
            after = at + len(article)
            free_before = at == 0 or not is_word_character(text[at - 1])
            free_after = after >= len(text) or not is_word_character(text[after])
            if text[at:after] == article and free_before and free_after:
                out, at = out + " ", after
                break
        else:
            out, at = out + text[at], at + 1
    return out


def delete_punctuation(text):
    return "".join(character for character in text if character not in string.punctuation)


def squad_words(text):
    return replace_articles(delete_punctuation(text.lower())).split()


def n_common(ours, theirs):
    left, n = list(theirs), 0
    for word in ours:
        if word in left:
            left.remove(word)
            n += 1
    return n


def f1(n_same, n_ours, n_theirs):
    if not n_same:
        return 0.0
    precision, recall = n_same / n_ours, n_same / n_theirs
    return 2 * precision * recall / (precision + recall)


def squad(prediction, answers):
    ours, em, best = squad_words(prediction), 0.0, 0.0
    for answer in answers:
        theirs = squad_words(answer)
        em = max(em, float(ours == theirs))
        if ours and theirs:
            best = max(best, f1(n_common(ours, theirs), len(ours), len(theirs)))
        else:
            best = max(best, float(ours == theirs))
    return em, best


def hotpotqa(prediction, answers):
    ours, em, best = squad_words(prediction), 0.0, 0.0
    for answer in answers:
        theirs = squad_words(answer)
        em = max(em, float(ours == theirs))
        special = [" ".join(words) in ("yes", "no", "noanswer") for words in (ours, theirs)]
        if ours == theirs or not any(special):
            best = max(best, f1(n_common(ours, theirs), len(ours), len(theirs)))
    return em, best


def bag_f1(ours, theirs):
    ours, theirs = set(ours), set(theirs)
    precision = len(ours & theirs) / len(ours) if ours else 1.0
    recall = len(ours & theirs) / len(theirs) if theirs else 1.0
    if precision == recall == 0:
        return 0.0
    return (2 * precision * recall) / (precision + recall)


# TAT-QA

SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "percent": 0.01}


def scale_value(word):
    for name, value in SCALES.items():
        if name in word.lower():
            return value
    return 1


def clean(text):
    return "".join(character for character in text if character not in "'\"\\$€£¥%(),[]")


def tatqa_is_number(text):
    words = clean(text).split()
    try:
        value = float(words[0])
    except (IndexError, ValueError):
        return False
    if math.isnan(value):
        return False
    return len(words) < 2 or scale_value(words[1]) != 1


def tatqa_number(text):
    found = re.search(r"[+-]?(\d+(\.\d+)?|\.\d+)", clean(text))
    if found is None or found[0].strip("+-").startswith("."):
        return None
    value = float(found[0]) if "." in found[0] else int(found[0])
    beside = re.search(r"[\d.]+\s?[a-zA-Z]+", text)
    if beside:
        value = value * scale_value(beside[0])
    if re.search(r"\([\d.\s]+\)", text.strip()):
        value = value * -1
    if re.search(r"[\d.\s]+%", text.strip()):
        value = value * 0.01
    return round(value, 4)


def tatqa_string(answers, scale):
    written = []
    for answer in sorted(answers):
        value = tatqa_number(answer) if tatqa_is_number(answer) else None
        if value is None:
            written.append(answer + (" " + scale if scale else ""))
        elif "%" in answer:
            written.append(f"{value:.4f}")
        else:
            written.append(f"{round(value, 2) * scale_value(scale):.4f}")
    return " ".join(written)


def tatqa_words(text):
    words = []
    for word in text.split(" "):
        token = word.lower()
        if not tatqa_is_number(token):
            token = delete_punctuation(token)
        if tatqa_is_number(token):
            token = str(tatqa_number(token))
        words += replace_articles(token).split()
    return words


def tatqa(predicted, gold, kind, scale, predicted_scale):
    if not predicted:
        return 0.0, 0.0
    forms = [tatqa_string(predicted, predicted_scale)]
    only = predicted[0]
    if len(predicted) == 1 and not predicted_scale and "%" not in only and tatqa_is_number(only):
        value = tatqa_number(only)
        if value is not None:
            forms.append(f"{value:.4f}")
    theirs = tatqa_words(tatqa_string(gold, scale))
    results = []
    for form in forms:
        ours = tatqa_words(form)
        results.append((float(ours == theirs), float(np.round(bag_f1(ours, theirs), 2))))
    em, best = max(results)
    return em, em if kind in ("arithmetic", "count") else best


# MMQA

NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
NUMBERS |= {"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13}
NUMBERS |= {"fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18}
NUMBERS |= {"nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
NUMBERS |= {"seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 10**3}
NUMBERS |= {"million": 10**6, "billion": 10**9, "point": 0}


def as_float(text):
    try:
        return float(text)
    except ValueError:
        return None


def mmqa_words(text):
    words = []
    for word in text.replace("-", " ").split(" "):
        token = word.lower()
        if as_float(token) is None:
            token = delete_punctuation(token)
        value = as_float(token)
        if value is None and token in NUMBERS:
            value = float(NUMBERS[token])
        words += replace_articles(token if value is None else str(value)).split()
    return words


def mmqa(predicted, gold):
    ours = [" ".join(mmqa_words(answer)) for answer in predicted]
    theirs = [" ".join(mmqa_words(answer)) for answer in gold]
    em = float(len(ours) == len(theirs) and set(ours) == set(theirs))
    if not ours:
        return em, 0.0
    n = max(len(ours), len(theirs))
    padded = ours + [None] * (n - len(ours)), theirs + [None] * (n - len(theirs))
    best = max(
        sum(mmqa_pair(one, other) for one, other in zip(order, padded[1], strict=True))
        for order in itertools.permutations(padded[0])
    )
    return em, best / n


def mmqa_pair(predicted, gold):
    if predicted is None or gold is None:
        return 0.0
    ours, theirs = predicted.split(), gold.split()
    numbers = [word for word in theirs if as_float(word) is not None]
    if numbers and not any(number in ours for number in numbers):
        return 0.0
    return bag_f1(ours, theirs)
