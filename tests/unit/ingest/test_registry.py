from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from canopy_rag.core.errors import IngestError, MissingDependencyError, UnknownNameError
from canopy_rag.core.types import Item
from canopy_rag.ingest import registry
from canopy_rag.ingest.options import IngestOptions

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("a.txt", "plain"),
        ("A.MD", "markdown"),
        ("a.xhtml", "html"),
        ("a.docx", "docx"),
        ("a.jsonl", "jsonl"),
        ("a.b.PDF", "pdf"),
        ("a.tsv", "sheets"),
        ("a.jpeg", "images"),
        ("a.mkv", "video"),
        ("a.log", None),
        ("a.srt", None),
        ("txt", None),
    ],
)
def test_the_suffix_decides_on_the_family(name: str, family: str | None) -> None:
    assert registry.family_of(Path(name)) == family
    assert registry.is_supported(Path(name)) == (family is not None)


def test_every_suffix_is_lower_case_with_a_dot() -> None:
    assert len(registry.suffixes()) == 28
    assert all(suffix == suffix.lower() and suffix[0] == "." for suffix in registry.suffixes())


def test_a_file_is_read_by_its_module(write: Write, options: IngestOptions) -> None:
    (item,) = registry.parse(write("A.TXT", "Hello."), "x/A.TXT", options)
    assert item.source.uri == "x/A.TXT"


def test_an_unknown_suffix_is_refused_with_the_known_ones(options: IngestOptions) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown file type '.pfd'. Did you mean '.pdf'"):
        next(registry.parse(Path("a.pfd"), "a.pfd", options))


def fail_with(error: BaseException) -> Callable[..., Iterator[Item]]:
    def parse(path: Path, uri: str, options: IngestOptions) -> Iterator[Item]:
        raise error
        yield

    return parse


@pytest.fixture
def parse_failing(
    monkeypatch: pytest.MonkeyPatch, options: IngestOptions
) -> Callable[[BaseException], None]:
    def run(error: BaseException) -> None:
        module = SimpleNamespace(parse=fail_with(error))
        monkeypatch.setattr(registry, "_module", lambda family: module)
        list(registry.parse(Path("a.pdf"), "b/a.pdf", options))

    return run


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("xref"), "is damaged or not what its suffix says (KeyError: 'xref')"),
        (RecursionError(), "is damaged or not what its suffix says (RecursionError)"),
        (FileNotFoundError(2, "No such file"), "cannot be read: No such file"),
    ],
)
def test_whatever_a_parser_raises_names_the_file_and_keeps_the_cause(
    error: Exception, message: str, parse_failing: Callable[[BaseException], None]
) -> None:
    with pytest.raises(IngestError) as caught:
        parse_failing(error)
    assert str(caught.value) == f"b/a.pdf: {message}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        MissingDependencyError("needs x"),
        IngestError("b/a.pdf", "is encrypted"),
        KeyboardInterrupt(),
    ],
)
def test_errors_that_say_enough_pass_through(
    error: BaseException, parse_failing: Callable[[BaseException], None]
) -> None:
    with pytest.raises(type(error)) as caught:
        parse_failing(error)
    assert caught.value is error


def test_a_file_without_items_is_an_error(
    monkeypatch: pytest.MonkeyPatch, options: IngestOptions
) -> None:
    module = SimpleNamespace(parse=lambda path, uri, options: iter(()))
    monkeypatch.setattr(registry, "_module", lambda family: module)
    with pytest.raises(IngestError, match=r"b/a\.pdf: holds nothing that could be indexed"):
        list(registry.parse(Path("a.pdf"), "b/a.pdf", options))


@pytest.mark.parametrize(
    ("names", "sidecar"),
    [
        (["film.srt", "film.mp4"], True),
        (["film.en.vtt", "film.webm"], True),
        (["film.pt-BR.sdh.ass", "film.MKV"], True),
        (["film.srt", "other.mp4"], False),
        (["film.srt"], False),
        (["photo.txt", "photo.JPG"], True),
        (["photo.png.txt", "photo.png"], True),
        (["film.txt", "film.mp4"], True),
        (["photo.txt", "photo.pdf"], False),
        (["photo.md", "photo.jpg"], False),
    ],
)
def test_what_only_describes_a_medium_beside_it_is_a_sidecar(
    names: list[str], sidecar: bool, write: Write
) -> None:
    paths = [write(name, "x") for name in names]
    assert registry.is_sidecar(paths[0]) == sidecar
    if sidecar:
        assert registry.sidecars(paths[1]) == [paths[0]]
    elif len(paths) > 1:
        assert registry.sidecars(paths[1]) == []


def test_a_long_text_beside_a_picture_is_a_document(write: Write) -> None:
    write("photo.jpg", "x")
    text = write("photo.txt", "word " * 5000)
    assert not registry.is_sidecar(text)


def test_asking_for_suffixes_and_sidecars_loads_no_parser_library() -> None:
    code = (
        "import sys; from pathlib import Path; from canopy_rag.ingest import registry;"
        "registry.suffixes(); registry.sidecars(Path('a.mp4')); registry.sidecars(Path('a.png'));"
        "heavy = {'av', 'pdfplumber', 'pypdfium2', 'docx', 'selectolax', 'markdown_it',"
        " 'openpyxl', 'pyarrow', 'syntok', 'charset_normalizer'} & set(sys.modules);"
        "sys.exit(','.join(sorted(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
