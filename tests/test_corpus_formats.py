"""Readers of line files, joined documents and XML, on small files that mimic the oddities of real ones."""

import gzip

import pytest

from training.corpus_formats import read_joined_documents, read_line_documents, read_translation_documents
from training.corpus_lines import read_lines
from training.corpus_xml import read_opus_documents, read_tmx_documents, read_wmt_documents


@pytest.fixture
def write(tmp_path):
    def write_file(name, content, encoding="utf-8"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write_file


@pytest.fixture
def raw(docmt_data):
    def path_in(folder, name):
        path = docmt_data / "raw" / folder / name
        if not path.exists():
            pytest.skip(f"raw/{folder}/{name} is not in the data folder")
        return path

    return path_in


def sides(documents):
    return [(document["src"], document.get("tgt")) for document in documents]


def lengths(documents):
    return [len(document["src"]) for document in documents]


# lines


def test_only_line_feeds_end_a_line(write):
    path = write("a.txt", "\ufeffone\u2028still one\r\ntwo\x0cstill two\x85\rstill two\n\nfour without end")
    assert list(read_lines(path)) == [
        (1, "one\u2028still one"),
        (2, "two\x0cstill two\x85\rstill two"),
        (3, ""),
        (4, "four without end"),
    ]


def test_packed_lines_and_other_encodings_are_read(write):
    assert list(read_lines(write("a.gz", gzip.compress(b"one\ntwo\n")))) == [(1, "one"), (2, "two")]
    path = write("latin.txt", "Käse\r\n", "latin-1")
    assert list(read_lines(path, "latin-1")) == [(1, "Käse")]
    with pytest.raises(ValueError, match=r"latin\.txt:1: byte 0xe4 .* is not utf-8"):
        list(read_lines(path))


@pytest.mark.parametrize("encoding", ["utf-16", "no-such-encoding"])
def test_an_encoding_that_cannot_be_read_by_lines_is_refused(write, encoding):
    with pytest.raises(ValueError, match="`encoding` must be one that"):
        list(read_lines(write("a.txt", "one\n"), encoding))


# one sentence a line


def test_blank_lines_separate_documents_however_many_there_are(write):
    source = write("a.en", "\n\nOne.\nTwo. \n \t\n\nThree.\n\n")
    target = write("a.de", "\n \nEins.\r\n  Zwei.\n\n\nDrei.\n\n")
    documents = list(read_line_documents(source, target))
    assert sides(documents) == [(["One.", "Two."], ["Eins.", "Zwei."]), (["Three."], ["Drei."])]
    assert [document["id"] for document in documents] == ["a.en:1", "a.en:2"]


def test_a_line_that_is_empty_on_one_side_is_a_pair_and_no_boundary(write):
    source, target = write("a.en", "One.\n\nThree.\n"), write("a.de", "Eins.\nZwei.\n\n")
    assert sides(read_line_documents(source, target)) == [(["One.", "", "Three."], ["Eins.", "Zwei.", ""])]


@pytest.mark.parametrize(("extra_source", "extra_target"), [(2, 0), (0, 1)])
def test_unequal_line_counts_are_an_error_with_both_counts(write, extra_source, extra_target):
    source = write("a.en", "One.\n" * (3 + extra_source))
    target = write("a.de", "Eins.\n" * (3 + extra_target))
    with pytest.raises(ValueError, match=rf"a\.en has {3 + extra_source} lines and .*a\.de has {3 + extra_target},"):
        list(read_line_documents(source, target))


def test_a_file_without_target_gives_documents_without_translation(write):
    assert sides(read_line_documents(write("a.en", "One.\n\nTwo.\n"))) == [(["One."], None), (["Two."], None)]


def test_marker_lines_open_documents_and_empty_lines_do_not(write):
    source = write("talks.en.txt", "<d>\r\nOne. \r\n\r\n<d>\r\n<d>\r\nTwo.\r\n")
    target = write("talks.de.txt", "<d>\nEins.\n\n<d>\n<d>\nZwei.\n")
    documents = list(read_line_documents(source, target, boundaries="marker"))
    assert sides(documents) == [(["One.", ""], ["Eins.", ""]), (["Two."], ["Zwei."])]
    assert documents[1]["id"] == "talks.en:2"


def test_a_marker_on_one_side_alone_names_its_line(write):
    source, target = write("a.en", "<d>\nOne.\nTwo.\n<d>\nThree.\n"), write("a.de", "<d>\nEins.\n<d>\nDrei.\nVier.\n")
    with pytest.raises(ValueError, match=r"a\.de:3: a document starts here \('<d>'\), but not in .*a\.en"):
        list(read_line_documents(source, target, boundaries="marker"))


def test_id_file_names_documents_by_its_last_column(write):
    source, target = write("a.en", "0\n1\n2\n3\n"), write("a.de", "0\n1\n2\n3\n")
    ids = write("a.docs", "canary\tcanary\nnews\tn.1\nnews\tn.1\nnews\tn.2\n")
    documents = list(read_line_documents(source, target, boundaries="ids", boundary_file=ids))
    assert [(document["id"], document["src"]) for document in documents] == [
        ("canary", ["0"]),
        ("n.1", ["1", "2"]),
        ("n.2", ["3"]),
    ]


def test_id_file_may_hold_json_objects(write):
    source = write("a.en", "1\n2\n")
    ids = write("a.jsonl", '{"docid": "x"}\n{"docid": "y"}\n')
    documents = list(read_line_documents(source, boundaries="ids", boundary_file=ids, id_key="docid"))
    assert [document["id"] for document in documents] == ["x", "y"]
    with pytest.raises(ValueError, match=r"a\.jsonl:1: there is no key 'doc'"):
        list(read_line_documents(source, boundaries="ids", boundary_file=ids, id_key="doc"))


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ("x\ny\nx\n", r"a\.docs:3: document 'x' goes on here after lines of document 'y'"),
        ("x\n\nx\n", r"a\.docs:2: no document id for the sentence '2'"),
        ("x\nx\n", r"a\.docs ends after line 2"),
        ("x\nx\nx\nx\n", r"a\.en ends after line 3"),
    ],
)
def test_a_faulty_id_file_names_its_line(write, ids, problem):
    source, id_file = write("a.en", "1\n2\n3\n"), write("a.docs", ids)
    with pytest.raises(ValueError, match=problem):
        list(read_line_documents(source, boundaries="ids", boundary_file=id_file))


@pytest.mark.parametrize("offsets", ["0\n2\n3\n", "1\n3\n4\n"])
def test_offsets_count_from_zero_or_one(write, offsets):
    source, offset_file = write("a.en", "a\nb\nc\nd\ne\n"), write("a.doc", offsets)
    documents = read_line_documents(source, boundaries="offsets", boundary_file=offset_file)
    assert [document["src"] for document in documents] == [["a", "b"], ["c"], ["d", "e"]]


@pytest.mark.parametrize(
    ("offsets", "problem"),
    [
        ("2\n4\n", r"a\.doc:1: the first document must start at line 0 or 1"),
        ("0\n2\n2\n", r"a\.doc:3: document starts must rise from line to line, got 2 after 2"),
        ("0\ntwo\n", r"a\.doc:2: must be one whole number"),
        ("0\n5\n", r"a\.doc:2: a document reaches line 6, but .*a\.en has 5 lines"),
    ],
)
def test_faulty_offsets_name_their_line(write, offsets, problem):
    source, offset_file = write("a.en", "a\nb\nc\nd\ne\n"), write("a.doc", offsets)
    with pytest.raises(ValueError, match=problem):
        list(read_line_documents(source, boundaries="offsets", boundary_file=offset_file))


def test_counts_give_the_sentences_of_each_document_and_must_cover_the_file(write):
    source = write("a.en", "a\nb\nc\n")

    def read(counts):
        return read_line_documents(source, boundaries="counts", boundary_file=write("a.n", counts))

    assert [document["src"] for document in read("2\n0\n1\n")] == [["a", "b"], ["c"]]
    with pytest.raises(ValueError, match=r"a\.n:2: a document reaches line 4, but .*a\.en has 3 lines"):
        list(read("2\n2\n"))
    with pytest.raises(ValueError, match=r"a\.en:3: there is no document for this line; the counts end with .*a\.n:1"):
        list(read("2\n"))


def test_boundary_file_is_asked_for_and_refused_where_it_is_not_read(write):
    source = write("a.en", "a\n")
    with pytest.raises(ValueError, match="`boundary_file` is needed for boundaries='offsets'"):
        list(read_line_documents(source, boundaries="offsets"))
    with pytest.raises(ValueError, match="is not read with boundaries='blank'"):
        list(read_line_documents(source, boundary_file=source))


def test_without_boundaries_the_file_is_one_document(write):
    assert sides(read_line_documents(write("a.en", "a\n\nb\n"), boundaries="none")) == [(["a", "", "b"], None)]


# one document a line


def test_joined_sentences_are_split_with_and_without_closing_mark(write):
    source = write("a.en", "<s> One. </s> <s> Two. </s>\n\nThree.\n")
    target = write("a.de", "Eins. </s> Zwei.\n\nDrei. </s>\n")
    documents = list(read_joined_documents(source, target))
    assert sides(documents) == [(["One.", "Two."], ["Eins.", "Zwei."]), (["Three."], ["Drei."])]
    assert [document["id"] for document in documents] == ["a.en:1", "a.en:3"]


def test_an_empty_sentence_between_two_marks_is_kept(write):
    assert sides(read_joined_documents(write("a.en", "a _eos _eos c\n"), separator="_eos")) == [(["a", "", "c"], None)]


def test_joined_documents_with_unequal_sides_are_named_or_reported(write):
    source, target = write("a.en", "a </s> b\nc\n"), write("a.de", "A\nC\n")
    with pytest.raises(ValueError, match=r"a\.en:1: 2 sentences between '</s>', but 1 in line 1 of .*a\.de"):
        list(read_joined_documents(source, target))
    messages = []
    assert sides(read_joined_documents(source, target, on_problem=messages.append)) == [(["c"], ["C"])]
    assert len(messages) == 1


# JSON of `run_translation.py`

PAIRS = """\
{"translation": {"en": "One. ", "de": "Eins.", "fr": "Un."}, "doc_id": 7}
{"translation": {"en": "Two.", "de": "Zwei."}, "doc_id": 7}

{"doc_id": "b", "translation": {"de": "Drei.", "en": "Three."}}
"""


def test_pairs_of_run_translation_are_documents_of_one_sentence_or_joined_by_a_key(write):
    path = write("train.json", PAIRS)
    options = {"source_lang": "en", "target_lang": "de"}
    alone = list(read_translation_documents(path, **options))
    assert alone == [
        {"id": "train:1", "src": ["One."], "tgt": ["Eins."]},
        {"id": "train:2", "src": ["Two."], "tgt": ["Zwei."]},
        {"id": "train:3", "src": ["Three."], "tgt": ["Drei."]},
    ]
    joined = list(read_translation_documents(path, **options, id_key="doc_id"))
    assert joined == [
        {"id": "7", "src": ["One.", "Two."], "tgt": ["Eins.", "Zwei."]},
        {"id": "b", "src": ["Three."], "tgt": ["Drei."]},
    ]
    packed = write("train.jsonl.gz", gzip.compress(PAIRS.encode()))
    assert list(read_translation_documents(packed, source_lang="de", target_lang="en"))[0]["src"] == ["Eins."]


@pytest.mark.parametrize(
    ("line", "id_key", "problem"),
    [
        ("[", None, r"train\.json:2: not a JSON object"),
        ('{"translation": {"en": "a", "nl": "b"}}', None, r'train\.json:2: there is no .*"de"'),
        ('{"en": "a", "de": "b"}', None, r"train\.json:2: there is no"),
        ('{"translation": {"en": "a", "de": null}}', None, r"train\.json:2: both sides .* got None"),
        ('{"translation": {"en": "a", "de": "b"}}', "doc_id", r"train\.json:2: there is no key 'doc_id'"),
        (
            '{"translation": {"en": "a", "de": "b"}, "doc_id": "x"}\n'
            '{"translation": {"en": "a", "de": "b"}, "doc_id": 7}',
            "doc_id",
            r"train\.json:3: document '7' goes on here after pairs of document 'x'",
        ),
    ],
)
def test_a_faulty_pair_names_its_line(write, line, id_key, problem):
    path = write("train.json", PAIRS.splitlines()[0] + "\n" + line + "\n")
    with pytest.raises(ValueError, match=problem):
        list(read_translation_documents(path, source_lang="en", target_lang="de", id_key=id_key))


# XML


WMT = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="sample">
  <doc origlang="en" id="d1" domain="news">
    <src lang="en"><p><seg id="1">Tea &amp; cake.</seg></p><p><seg id="2">It is
      late.</seg></p></src>
    <ref lang="de" translator="A"><p><seg id="1">Tee und Kuchen.</seg></p><p><seg id="2">Es ist spät.</seg></p></ref>
    <ref lang="de" translator="B"><p><seg id="1">Tee, Kuchen.</seg></p><p><seg id="2">Spät ist es.</seg></p></ref>
    <hyp system="x"><p><seg id="1">nothing</seg></p></hyp>
  </doc>
  <doc origlang="en" id="d2" testsuite="t"><src lang="en"><p><seg id="1">Alone.</seg></p></src></doc>
</dataset>
"""


def test_wmt_references_are_told_apart_and_outputs_passed_over(write):
    first, second = read_wmt_documents(write("a.xml", WMT))
    assert first == {
        "id": "d1",
        "src_lang": "en",
        "src": ["Tea & cake.", "It is\n      late."],
        "tgt_lang": "de",
        "tgt": ["Tee und Kuchen.", "Es ist spät."],
        "alt": {"B": ["Tee, Kuchen.", "Spät ist es."]},
        "para": [0, 1],
        "domain": "news",
        "origlang": "en",
    }
    assert second["testsuite"] == "t" and "tgt" not in second
    chosen = next(read_wmt_documents(write("a.xml", WMT), reference="B"))
    assert chosen["tgt"] == ["Tee, Kuchen.", "Spät ist es."] and list(chosen["alt"]) == ["A"]


def test_wmt_document_with_a_missing_segment_is_named_or_reported(write):
    path = write("a.xml", WMT.replace('<seg id="2">Spät ist es.</seg>', ""))
    with pytest.raises(
        ValueError, match=r"a\.xml:3: document 'd1': reference 'B' has 1 segments for 2 .*missing: \['2'"
    ):
        list(read_wmt_documents(path))
    messages = []
    assert [document["id"] for document in read_wmt_documents(path, on_problem=messages.append)] == ["d2"]
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("options", "problem"), [({"source_lang": "cs"}, "no `src` in 'cs'"), ({"reference": "C"}, "no reference 'C'")]
)
def test_wmt_language_or_reference_that_is_not_there_is_named(write, options, problem):
    with pytest.raises(ValueError, match=problem):
        list(read_wmt_documents(write("a.xml", WMT), **options))


def test_broken_xml_names_its_line(write):
    with pytest.raises(ValueError, match=r"a\.xml:3: not well-formed XML"):
        list(read_wmt_documents(write("a.xml", "<dataset>\n<doc id='1'>\n</dataset>\n")))
    with pytest.raises(ValueError, match=r"a\.xml:2: not well-formed XML \(no element found"):
        list(read_wmt_documents(write("a.xml", "<dataset>\n")))


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE tmx [<!ENTITY b SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
    ],
)
def test_entities_are_refused_and_not_expanded(write, head):
    path = write("a.tmx", f"{head}<tmx><tu><tuv xml:lang='en'><seg>x &b;</seg></tuv></tu></tmx>")
    with pytest.raises(ValueError, match="the entity '[ab]', which is not read for safety"):
        list(read_tmx_documents(path, source_lang="en", target_lang="de"))


TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header/><body>
<tu><prop type="doc">one</prop><tuv xml:lang="en-US"><seg>Press <bpt>&lt;b&gt;</bpt>Save<ept>&lt;/b&gt;</ept>
now.</seg></tuv><tuv xml:lang="DE"><seg>Jetzt <hi>Speichern</hi> drücken.</seg></tuv></tu>
<tu><prop type="doc">one</prop><tuv xml:lang="en"><seg>Fine.</seg></tuv><tuv xml:lang="fr"><seg>Bon.</seg></tuv></tu>
<tu><prop type="doc">two</prop><tuv xml:lang="de"><seg>Ende.</seg></tuv><tuv xml:lang="en"><seg>End.</seg></tuv></tu>
</body></tmx>"""


def test_tmx_units_are_grouped_by_property_and_lose_their_codes(write):
    documents = list(
        read_tmx_documents(write("a.tmx", TMX), source_lang="en", target_lang="de", document_property="doc")
    )
    assert [document["id"] for document in documents] == ["one", "two"]
    assert sides(documents) == [
        (["Press Save now.", "Fine."], ["Jetzt Speichern drücken.", ""]),
        (["End."], ["Ende."]),
    ]
    assert lengths(read_tmx_documents(write("a.tmx", TMX), source_lang="en", target_lang="de")) == [3]


ALIGNMENT = """<?xml version="1.0"?><cesAlign>
<linkGrp fromDoc="de/1/a.xml.gz" toDoc="en/1/a.xml.gz"><link xtargets="1;1 2"/><link xtargets="2;"/></linkGrp>
<linkGrp fromDoc="de/1/b.xml.gz" toDoc="en/1/b.xml.gz"><link xtargets="1;9"/></linkGrp>
</cesAlign>"""


def test_opus_links_are_joined_and_turned_round(write):
    alignment = write("de-en.xml.gz", gzip.compress(ALIGNMENT.encode()))
    german = '<document><p><s id="1">Das ist es, <time/>ja.</s><s id="2">Gut.</s></p></document>'
    english = '<document><s id="1"><w>That</w><w>is</w></s><s id="2"><w>it</w></s></document>'
    write("de/1/a.xml.gz", gzip.compress(german.encode()))
    write("en/1/a.xml", english)
    write("de/1/b.xml", german)
    write("en/1/b.xml", english)
    messages = []
    languages = {"source_lang": "en", "target_lang": "de"}
    (document,) = read_opus_documents(alignment, on_problem=messages.append, **languages)
    assert document["id"] == "en/1/a"
    assert sides([document]) == [(["That is it", ""], ["Das ist es, ja.", "Gut."])]
    assert len(messages) == 1 and "links sentence '9'" in messages[0]
    with pytest.raises(ValueError, match="which are not in 'cs' and 'de'"):
        list(read_opus_documents(alignment, source_lang="cs", target_lang="de"))


# heads of real files


@pytest.mark.parametrize(
    ("name", "documents", "sentences"),
    [("IWSLT2017.test", 23, 2271), ("NC-2016.dev.head600", 33, 567), ("Europarl7.dev.head300", 23, 277)],
)
def test_real_marker_files(raw, name, documents, sentences):
    files = (raw("selective-attn", f"{name}.{language}.txt") for language in ("en", "de"))
    read = list(read_line_documents(*files, boundaries="marker"))
    assert (len(read), sum(lengths(read))) == (documents, sentences)
    assert not any(sentence != sentence.strip() for document in read for sentence in document["src"])


def test_real_blank_line_files(raw):
    read = list(read_line_documents(raw("doc2doc", "pdc.zh.head200.sample"), raw("doc2doc", "pdc.en.head200.sample")))
    assert lengths(read) == [26, 21, 21, 17, 26, 28, 39, 12, 2]


def test_real_counts_file_of_a_longer_corpus_is_refused(raw):
    counts = raw("doc2doc", "doc.head.n_sent")
    documents = read_line_documents(raw("doc2doc", "sent.head.zh"), boundaries="counts", boundary_file=counts)
    assert len(next(documents)["src"]) == 24
    with pytest.raises(ValueError, match=r"doc\.head\.n_sent:7: a document reaches line 217"):
        list(documents)


def test_real_id_files_in_both_layouts(raw):
    files = [raw("wmt24-txt", f"head150.en-de.{name}.txt") for name in ("src", "refA")]
    by_column = read_line_documents(*files, boundaries="ids", boundary_file=raw("wmt24-txt", "head150.en-de.docs"))
    metadata = raw("wmt24-txt", "head150.en-de.metadata.jsonl")
    by_key = read_line_documents(*files, boundaries="ids", boundary_file=metadata, id_key="docid")
    documents = list(by_column)
    assert documents == list(by_key)
    assert (len(documents), documents[0]["id"], lengths(documents)[:4]) == (18, "canary", [1, 5, 5, 9])


def test_real_joined_documents(raw):
    files = (raw("voita", f"deixis_dev.head100.{side}") for side in ("src", "dst"))
    assert lengths(read_joined_documents(*files, separator="_eos")) == [4] * 100


def test_real_wmt_xml(raw):
    documents = list(read_wmt_documents(raw("wmt-xml", "sample-src-ref.xml"), source_lang="en", target_lang="ha"))
    assert (len(documents), sum(lengths(documents))) == (73, 1005)
    assert sum("tgt" in document for document in documents) == 71
    assert {document.get("testsuite") for document in documents if "tgt" not in document} == {"sample"}


def test_real_latin1_file_needs_its_encoding(raw):
    path = raw("gutenberg", "19778-8.head300.latin1-crlf.txt")
    with pytest.raises(ValueError, match="is not utf-8"):
        list(read_line_documents(path))
    text = "".join(s for d in read_line_documents(path, source_encoding="latin-1") for s in d["src"])
    assert "ü" in text and "\r" not in text


def test_real_file_with_byte_order_mark_starts_with_text(raw):
    first = next(read_line_documents(raw("gutenberg", "11-0.head150.utf8-bom-crlf.txt")))
    assert not first["src"][0].startswith("\ufeff")
