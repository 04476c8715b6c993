"""
Documents from XML: WMT test sets (2021 and later), TMX translation memories, OPUS sentence alignments.

XML from elsewhere is not trusted. Files are parsed by expat, which opens no external entity or DTD on its own, and a
file that declares an entity of its own is refused, so that none can grow to fill the memory. A `<!DOCTYPE` line that
only names a DTD, as TMX has it, is passed over.
"""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from xml.parsers import expat

from training.corpus_formats import file_stem
from training.corpus_lines import open_binary
from training.documents import Record


XML_LANG = "xml:lang"
# TMX: what stands inside these is markup of the original format, not text
TMX_CODES = ("bpt", "ept", "it", "ph", "ut", "sub")


def iterate_elements(path: str | Path, tag: str) -> Iterator[tuple[int, ET.Element]]:
    """
    Yield each outermost element called `tag` with the line where it starts, holding no other part of the file.

    Raises:
        `ValueError`: naming file and line, if the file is not well-formed XML or declares an entity.
    """
    ready: list[tuple[int, ET.Element]] = []
    builder: ET.TreeBuilder | None = None
    open_elements = first_line = 0
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal builder, open_elements, first_line
        if builder is None and name == tag:
            builder, first_line = ET.TreeBuilder(), parser.CurrentLineNumber
        if builder is not None:
            open_elements += 1
            builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal builder, open_elements
        if builder is None:
            return
        builder.end(name)
        open_elements -= 1
        if not open_elements:
            ready.append((first_line, builder.close()))
            builder = None

    def text(data: str) -> None:
        if builder is not None:
            builder.data(data)

    def refuse_entity(name: str, *_: object) -> None:
        raise ValueError(
            f"{path}:{parser.CurrentLineNumber}: uses or declares the entity {name!r}, which is not read for safety. "
            f"Replace it in the text, for example by `xmllint --noent {path}`."
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = text, refuse_entity
    # an entity of a DTD that is not read would be left out without a word
    parser.SkippedEntityHandler = refuse_entity
    with open_binary(path) as file:
        try:
            while data := file.read(1 << 16):
                parser.Parse(data, False)
                yield from ready
                ready.clear()
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise ValueError(
                f"{path}:{error.lineno}: not well-formed XML ({expat.ErrorString(error.code)}). `xmllint --noout "
                f"{path}` shows the place."
            ) from error
    yield from ready


def _matches(language: str | None, wanted: str | None) -> bool:
    """Whether a language code such as `de-DE` is the one wanted; `de` stands for all its regions."""
    if wanted is None:
        return True
    language, wanted = (language or "").lower().replace("_", "-"), wanted.lower().replace("_", "-")
    return language == wanted or language.startswith(wanted + "-")


def _text(element: ET.Element) -> str:
    return "".join(element.itertext()).strip()


def read_wmt_documents(
    path: str | Path,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    reference: str | None = None,
    on_problem: Callable[[str], None] | None = None,
) -> Iterator[Record]:
    """
    Read a test set in the XML layout of WMT 2021 and later: `doc`, in it `src` and `ref`, then `p`, then `seg`.

    Args:
        path (`str` or `Path`):
            The file. System outputs (`hyp`) in it are passed over.
        source_lang, target_lang (`str`, *optional*):
            Languages to take if the file has several.
        reference (`str`, *optional*):
            Name of the translator (such as `"A"`) whose reference becomes `tgt`; the first one by default. The other
            references are kept under `alt`.
        on_problem (`Callable[[str], None]`, *optional*):
            Receives the message of a faulty document, which is then left out. `None` raises it.

    Returns:
        iterator over `{"id", "src_lang", "tgt_lang", "src", "tgt", "para"}` with `alt`, `domain`, `origlang` and
        `testsuite` where the file has them. A document without reference has no `tgt`.

    Raises:
        `ValueError`: if a reference does not have the segments of the source, naming the line of the document.
    """
    for line, doc in iterate_elements(path, "doc"):
        try:
            yield _wmt_record(doc, f"{path}:{line}: document {doc.get('id')!r}", source_lang, target_lang, reference)
        except ValueError as error:
            if on_problem is None:
                raise
            on_problem(str(error))


def _wmt_record(
    doc: ET.Element, where: str, source_lang: str | None, target_lang: str | None, reference: str | None
) -> Record:
    if doc.get("id") is None:
        raise ValueError(f"{where} has no `id`. Give it one.")
    source = next((side for side in doc.iter("src") if _matches(side.get("lang"), source_lang)), None)
    if source is None:
        raise ValueError(
            f"{where} has no `src` in {source_lang!r}, only in {sorted(s.get('lang', '?') for s in doc.iter('src'))}. "
            "Correct `source_lang`."
        )
    record: Record = {"id": doc.get("id"), "src_lang": source_lang or source.get("lang")}
    paragraphs = list(source.iter("p")) or [source]
    record["src"] = [_text(seg) for paragraph in paragraphs for seg in paragraph.iter("seg")]
    references: dict[str, list[str]] = {}
    for side in doc.iter("ref"):
        if _matches(side.get("lang"), target_lang):
            name = side.get("translator") or str(len(references) + 1)
            references[name] = _reference_sentences(source, side, where, name)
            record.setdefault("tgt_lang", target_lang or side.get("lang"))
    if references:
        main = next(iter(references)) if reference is None else reference
        if main not in references:
            raise ValueError(f"{where} has no reference {main!r}, only {sorted(references)}. Correct `reference`.")
        record["tgt"] = references.pop(main)
    if references:
        record["alt"] = references
    record["para"] = [number for number, paragraph in enumerate(paragraphs) for _ in paragraph.iter("seg")]
    return record | {key: doc.attrib[key] for key in ("domain", "origlang", "testsuite") if key in doc.attrib}


def _reference_sentences(source: ET.Element, side: ET.Element, where: str, name: str) -> list[str]:
    source_ids = [seg.get("id") for seg in source.iter("seg")]
    segments = list(side.iter("seg"))
    if [seg.get("id") for seg in segments] != source_ids:
        known = {seg.get("id") for seg in segments}
        missing = [identifier for identifier in source_ids if identifier not in known]
        raise ValueError(
            f"{where}: reference {name!r} has {len(segments)} segments for {len(source_ids)} of the source, or in "
            f"another order; missing: {missing[:5] or 'none'}. Correct the file, or leave such documents out with "
            "`--on_error skip`."
        )
    return [_text(seg) for seg in segments]


def read_tmx_documents(
    path: str | Path, *, source_lang: str, target_lang: str, document_property: str | None = None
) -> Iterator[Record]:
    """
    Read a TMX translation memory.

    Args:
        path (`str` or `Path`):
            The file. Inline codes (`bpt`, `ph`, ...) are left out of the text.
        source_lang, target_lang (`str`):
            Languages to take; `"de"` stands for `de-DE` too. A unit that lacks one of them has an empty side.
        document_property (`str`, *optional*):
            Type of the `prop` element that names the document of a unit; successive units with the same value form a
            document. By default the whole file is one document, which is then held in memory.
    """
    units = (element for _, element in iterate_elements(path, "tu"))
    for name, group in groupby(units, key=lambda unit: _property(unit, document_property)):
        record: Record = {"id": name or file_stem(path), "src_lang": source_lang, "tgt_lang": target_lang}
        pairs = [[_unit_text(unit, language) for language in (source_lang, target_lang)] for unit in group]
        record["src"], record["tgt"] = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        yield record


def _property(unit: ET.Element, kind: str | None) -> str | None:
    if kind is None:
        return None
    return next((_text(prop) for prop in unit.iter("prop") if prop.get("type") == kind), None)


def _unit_text(unit: ET.Element, language: str) -> str:
    for variant in unit.iter("tuv"):
        segment = variant.find("seg")
        if segment is not None and _matches(variant.get(XML_LANG) or variant.get("lang"), language):
            return " ".join("".join(_text_without_codes(segment)).split())
    return ""


def _text_without_codes(element: ET.Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag not in TMX_CODES:
            yield from _text_without_codes(child)
        yield child.tail or ""


def read_opus_documents(
    path: str | Path,
    *,
    source_lang: str,
    target_lang: str,
    root: str | Path | None = None,
    on_problem: Callable[[str], None] | None = None,
) -> Iterator[Record]:
    """
    Read an OPUS alignment file (`de-en.xml.gz`) with the documents that it links.

    Sentences of one link are joined with a blank; a link with nothing on one side gives a pair with an empty side.

    Args:
        path (`str` or `Path`):
            The alignment file. OPUS writes each pair of languages in one direction; it is turned round as needed.
        source_lang, target_lang (`str`):
            The two languages, as in the names of the linked files (`en/2010/talk.xml.gz`).
        root (`str` or `Path`, *optional*):
            Folder that the names of the linked files start from; by default that of the alignment file.
        on_problem (`Callable[[str], None]`, *optional*):
            Receives the message of a faulty document, which is then left out. `None` raises it.
    """
    base = Path(root) if root is not None else Path(path).parent
    for line, group in iterate_elements(path, "linkGrp"):
        names = [group.get("fromDoc", ""), group.get("toDoc", "")]
        try:
            turned = _is_turned(names, source_lang, target_lang, f"{path}:{line}")
            sides = [dict(_opus_sentences(base, name)) for name in names]
            pairs = [_linked(link, sides, f"{path}:{line}") for link in group.iter("link")]
        except ValueError as error:
            if on_problem is None:
                raise
            on_problem(str(error))
            continue
        source, target = (1, 0) if turned else (0, 1)
        yield {
            "id": names[source].removesuffix(".gz").removesuffix(".xml"),
            "src_lang": source_lang,
            "tgt_lang": target_lang,
            "src": [pair[source] for pair in pairs],
            "tgt": [pair[target] for pair in pairs],
        }


def _is_turned(names: list[str], source_lang: str, target_lang: str, where: str) -> bool:
    languages = [name.split("/")[0] for name in names]
    if languages == [source_lang, target_lang]:
        return False
    if languages == [target_lang, source_lang]:
        return True
    raise ValueError(
        f"{where}: links {names[0]!r} to {names[1]!r}, which are not in {source_lang!r} and {target_lang!r}. Correct "
        "`source_lang` and `target_lang`."
    )


def _opus_sentences(base: Path, name: str) -> Iterator[tuple[str, str]]:
    plain = name.removesuffix(".gz")
    found = next((file for file in (base / name, base / plain, base / f"{plain}.gz") if file.is_file()), None)
    if found is None:
        raise ValueError(f"{base / name}: there is no such file. Name the folder that holds the documents (`root`).")
    for _, sentence in iterate_elements(found, "s"):
        words = [word.text or "" for word in sentence.iter("w")]
        yield sentence.get("id", ""), " ".join(words) if words else " ".join("".join(sentence.itertext()).split())


def _linked(link: ET.Element, sides: list[dict[str, str]], where: str) -> list[str]:
    targets = link.get("xtargets", "").split(";")
    if len(targets) != 2:
        raise ValueError(f"{where}: `xtargets` must be two lists with ';' between, got {link.get('xtargets')!r}.")
    return [_joined(ids.split(), side, where) for ids, side in zip(targets, sides, strict=True)]


def _joined(ids: Iterable[str], sentences: dict[str, str], where: str) -> str:
    missing = [identifier for identifier in ids if identifier not in sentences]
    if missing:
        raise ValueError(f"{where}: links sentence {missing[0]!r}, which its document does not have.")
    return " ".join(sentences[identifier] for identifier in ids)
