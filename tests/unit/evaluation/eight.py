"""All eight benchmarks of the paper in their official layouts, made up, a few questions each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILMS = ("Alpha", "Beta", "Gamma")
"""A question each."""
MAKERS = ("Ann", "Ben", "Cid")
N_VIDEOS = 1
"""A question each; pictures are what takes time."""
N = 6 * len(FILMS) + 2 * N_VIDEOS
"""All questions."""


def write_all(folder: Path, make_clip: Callable[..., Path]) -> list[str]:
    """Write the files of every benchmark below `folder`, and return their places as `NAME=PATH`.

    Args:
        folder: Where to; that of `make_clip`.
        make_clip: Makes a video below `folder`.
    """
    writers = {
        "nq": _nq,
        "hotpotqa": _hotpotqa,
        "ottqa": _ottqa,
        "mmqa": _mmqa,
        "2wikimultihopqa": _wiki2,
        "tatqa": _tatqa,
    }
    for name, write in writers.items():
        write(folder / name)
    _lvbench(folder / "lvbench", make_clip)
    _longvideobench(folder / "longvideobench", make_clip)
    names = (*writers, "lvbench", "longvideobench")
    return [f"{name}={folder / name}" for name in names]


def _json(path: Path, body: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body), encoding="utf-8")


def _lines(path: Path, records: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")


def _nq(folder: Path) -> None:
    def context(number: int, title: str, text: str, score: int) -> dict[str, Any]:
        return {
            "title": title,
            "text": text,
            "score": score,
            "title_score": int(score == 1000),
            "passage_id": str(number),
        }

    records = [
        {
            "dataset": "nq_dev_psgs_w100",
            "question": f"who painted {film.lower()}",
            "answers": [maker],
            "positive_ctxs": [
                context(
                    number,
                    f"Painting {film}",
                    f"{film} was painted by {maker}. It hangs in a hall. Nobody sold it since.",
                    1000,
                )
            ],
            "negative_ctxs": [context(100 + number, f"Hall {film}", "A hall. It is cold.", 1)],
            "hard_negative_ctxs": [],
        }
        for number, (film, maker) in enumerate(zip(FILMS, MAKERS, strict=True))
    ]
    _json(folder / "biencoder-nq-dev.json", records)


def _hotpotqa(folder: Path) -> None:
    records = [
        {
            "_id": f"h{number}",
            "question": f"Where was the maker of the film {film} born?",
            "answer": f"Town {number}",
            "type": "bridge" if number % 2 else "comparison",
            "level": "hard",
            "context": [
                [f"{film} (film)", [f"{film} was made by {maker}.", " It is long.", " It won."]],
                [maker, [f"{maker} was born in Town {number}.", " There is a song of it."]],
            ],
            "supporting_facts": [[f"{film} (film)", 0], [maker, 0]],
        }
        for number, (film, maker) in enumerate(zip(FILMS, MAKERS, strict=True))
    ]
    _json(folder / "hotpot_dev_distractor_v1.json", records)


def _ottqa(folder: Path) -> None:
    questions = []
    for number, (film, maker) in enumerate(zip(FILMS, MAKERS, strict=True)):
        table_id = f"Squad_{film}_0"
        link = f"/wiki/{maker}_Player"
        rows = [[["1990", []], [f"{maker} Player", [link]]]]
        rows += [[[str(1991 + row), []], [f"Other {row}", []]] for row in range(4)]
        table = {
            "url": "u",
            "title": f"Squad {film}",
            "header": [["Year", []], ["Player", []]],
            "data": rows,
            "section_title": "Players",
            "section_text": "",
            "uid": table_id,
            "intro": "",
        }
        _json(folder / f"data/traindev_tables_tok/{table_id}.json", table)
        text = f"{maker} Player was born in 19{number}7 . {maker} sings . The club is old ."
        _json(folder / f"data/traindev_request_tok/{table_id}.json", {link: text})
        questions.append(
            {
                "question_id": f"o{number}",
                "question": f"When was the player of squad {film} in 1990 born ?",
                "table_id": table_id,
                "answer-text": f"19{number}7",
                "question_postag": "",
                "answer-node": [[f"19{number}7", [0, 1], link, "passage"]],
            }
        )
    _json(folder / "released_data/dev.traced.json", questions)


def _mmqa(folder: Path) -> None:
    from PIL import Image

    tables, texts, images, questions = [], [], [], []
    (folder / "final_dataset_images").mkdir(parents=True)
    for number, film in enumerate(FILMS):
        rows = [[{"text": f"{1950 + number}"}, {"text": f"{film} Picture"}]]
        rows += [[{"text": str(1960 + row)}, {"text": f"Picture {row}"}] for row in range(3)]
        tables.append(
            {
                "title": f"List {film}",
                "url": "u",
                "id": f"tab{number}",
                "table": {
                    "table_name": "Pictures",
                    "header": [{"column_name": "Year"}, {"column_name": "Title"}],
                    "table_rows": [[{**cell, "links": []} for cell in row] for row in rows],
                },
            }
        )
        text = f"{film} Picture is a picture of {1950 + number}. It was shown. It is gone."
        texts.append({"title": f"{film} Picture", "url": "u", "id": f"t{number}", "text": text})
        images.append({"title": f"{film} Poster", "url": "u", "id": f"i{number}",
                       "path": f"i{number}.png"})  # fmt: skip
        picture = Image.new("RGB", (40, 30), (40 * number, 100, 0))
        picture.save(folder / "final_dataset_images" / f"i{number}.png")
        support = (("t", "text"), ("tab", "table"), ("i", "image"))[number % 3]
        where = {
            "text_instances": [],
            "table_indices": [[0, 0]] if support[1] == "table" else [],
            "image_instances": [],
        }
        if support[1] == "text":
            start = text.index(f"{1950 + number}")
            where["text_instances"] = [
                {"doc_id": f"t{number}", "part": "text", "start_byte": start, "text": "1950"}
            ]
        questions.append(
            {
                "qid": f"m{number}",
                "question": f"Which year is the picture {film} of?",
                "answers": [
                    {"answer": f"{1950 + number}", "type": "string", "modality": support[1],
                     **where}
                ],
                "metadata": {
                    "type": ("TextQ", "TableQ", "ImageQ")[number % 3],
                    "modalities": [support[1]],
                    "image_doc_ids": [f"i{number}"],
                    "text_doc_ids": [f"t{number}"],
                    "table_id": f"tab{number}",
                    "intermediate_answers": [],
                },
                "supporting_context": [
                    {"doc_id": f"{support[0]}{number}", "doc_part": support[1]}
                ],
            }
        )  # fmt: skip
    _lines(folder / "dataset/MMQA_dev.jsonl", questions)
    for name, records in (("tables", tables), ("texts", texts), ("images", images)):
        _lines(folder / f"dataset/MMQA_{name}.jsonl", records)


def _wiki2(folder: Path) -> None:
    records = [
        {
            "_id": f"w{number}",
            "type": "compositional" if number % 2 else "comparison",
            "question": f"Who is the mother of the writer of book {film}?",
            "context": [
                [f"Book {film}", [f"Book {film} was written by {maker} Writer.", "It is thick."]],
                [f"{maker} Writer", [f"The mother of {maker} Writer is Eve {number}.", "So."]],
            ],
            "supporting_facts": [[f"Book {film}", 0], [f"{maker} Writer", 0]],
            "evidences": [],
            "answer": f"Eve {number}",
            "answer_id": "Q1",
        }
        for number, (film, maker) in enumerate(zip(FILMS, MAKERS, strict=True))
    ]
    _json(folder / "dev.json", records)


def _tatqa(folder: Path) -> None:
    pages = [
        {
            "table": {
                "uid": f"t{number}",
                "table": [
                    ["", "2019", "2018"],
                    [f"Sales {film}", f"{number}1.4", f"{number}2.5"],
                    ["Other", "44.1", "56.7"],
                    ["Rent", "4.1", "6.7"],
                ],
            },
            "paragraphs": [
                {
                    "uid": f"p{number}",
                    "order": 1,
                    "text": f"Sales of {film} grew by {number}9 %. They may grow again. Or not.",
                }
            ],
            "questions": [
                {
                    "uid": f"q{number}",
                    "order": 1,
                    "question": f"What were the sales of {film} in 2019?",
                    "answer": [f"{number}1.4"],
                    "derivation": "",
                    "answer_type": "span",
                    "answer_from": "table",
                    "rel_paragraphs": [],
                    "req_comparison": False,
                    "scale": "",
                }
            ],
        }
        for number, film in enumerate(FILMS)
    ]
    _json(folder / "dataset_tagop/tatqa_dataset_dev.json", pages)


def _lvbench(folder: Path, make_clip: Callable[..., Path]) -> None:
    (folder / "videos").mkdir(parents=True)
    videos = []
    for number, film in enumerate(FILMS[:N_VIDEOS]):
        make_clip(f"lvbench/videos/k{number}.mp4", [(40, 6.0), (160, 6.0)])
        asked = {
            "uid": str(number),
            "question": f"What colour is {film}?\n(A) red\n(B) blue\n(C) green\n(D) none",
            "answer": "B",
            "question_type": ["entity recognition"],
            "time_reference": "00:02-00:04",
        }
        videos.append({"key": f"k{number}", "type": "tv", "qa": [asked]})
    _lines(folder / "video_info.meta.jsonl", videos)


def _longvideobench(folder: Path, make_clip: Callable[..., Path]) -> None:
    (folder / "videos").mkdir(parents=True)
    records = []
    for number, film in enumerate(FILMS[:N_VIDEOS]):
        make_clip(f"longvideobench/videos/v{number}.mkv", [(40, 6.0), (200, 6.0)])
        records.append(
            {
                "video_id": f"v{number}",
                "question": f"What happens to {film}?",
                "question_wo_referring_query": "What happens?",
                "candidates": ["nothing", "a dog barks", "rain"],
                "correct_choice": 1,
                "position": [25],
                "topic_category": "NP",
                "question_category": "S2E",
                "level": "L1-Perception",
                "id": f"v{number}_0",
                "video_path": f"v{number}.mkv",
                "subtitle_path": f"v{number}_en.json",
                "duration_group": 15,
                "starting_timestamp_for_subtitles": 0,
                "duration": 12.0,
                "view_count": 3,
            }
        )
    _json(folder / "lvb_val.json", records)
