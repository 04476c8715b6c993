"""The pipeline: as many sentences out as in, the layout in place, and nothing sent to the model for nothing."""

import json
import random
import subprocess
import sys
import textwrap

import pytest
import torch
from transformers import MarianTokenizer, TextIteratorStreamer

import modeling_docmt
from modeling_docmt.documents_docmt import encode_sentences, has_letters
from modeling_docmt.pipeline_docmt import DocumentTranslationPipeline
from modeling_docmt.text_docmt import split_lines


# random models do not stop by themselves
SHORT = {"max_sentence_tokens": 4}
# where presets are wider than the documents here
CHANGES = {"window-attn": {"window_size": 3}, "p-transformer": {"relative_distances": 5}}
SYSTEMS = [(system, CHANGES.get(system, {})) for system in modeling_docmt.SYSTEMS]


@pytest.fixture(scope="module")
def make_pipe(make_model, tokenizer):
    def make(system="sentence-level", task="", **changes):
        options = {name: changes.pop(name) for name in ("segmentation", "splitter", "num_beams") if name in changes}
        model = make_model(system, **{"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, **changes})
        return DocumentTranslationPipeline(model=model, tokenizer=tokenizer, task=task, device="cpu", **options)

    return make


@pytest.fixture(scope="module")
def pipe(make_pipe):
    return make_pipe()


def test_a_streamer_ends_where_nothing_is_translated(pipe):
    """Fails if whoever iterates over it waits for ever."""
    for nothing in ("* * *", "", ["\n"]):
        streamer = TextIteratorStreamer(pipe.tokenizer, timeout=5)
        pipe(nothing, streamer=streamer)
        assert "".join(streamer).strip() == ""


def test_options_of_the_former_pipeline_are_refused_with_the_reason(pipe):
    with pytest.raises(ValueError, match="`truncation` belongs to .* cuts none off. Leave it out"):
        pipe("A text.", truncation=True)


@pytest.fixture
def generate_inputs(pipe, monkeypatch):
    """Token ids that reach `generate()`."""
    seen = []
    generate = pipe.model.generate

    def record(**kwargs):
        seen.append(kwargs["input_ids"])
        return generate(**kwargs)

    monkeypatch.setattr(pipe.model, "generate", record)
    return seen


def statuses(result):
    return [sentence["status"] for sentence in result["sentences"]]


def random_document(generator: random.Random) -> str:
    pieces = ["Go on.", "He left; she stayed.", "", "  ", "\tIndented", "* * *", "42", "👍🏽", "שלום", "a\u2028b"]
    endings = ["\n", "\r\n", "\r", "\n\n"]
    return "".join(generator.choice(pieces) + generator.choice(endings) for _ in range(generator.randrange(1, 7)))


def test_every_line_comes_back_in_its_place(pipe):
    text = "\n  The door is open.\r\n\r\n\tIt is late. \n* * *\r\rGo home.\u2028Stop"
    result = pipe(text, **SHORT)
    translations = [sentence["translation"] for sentence in result["sentences"]]
    assert [sentence["source"] for sentence in result["sentences"]] == [
        *("", "The door is open.", "", "It is late.", "* * *", "", "Go home.", "Stop")
    ]
    assert statuses(result)[0] == "empty" and statuses(result)[4] == "copied"
    assert all(translations[index] for index in (1, 3, 6, 7))
    assert result["translation_text"] == "\n  {}\r\n\r\n\t{} \n* * *\r\r{}\u2028{}".format(
        *(translations[index] for index in (1, 3, 6, 7))
    )


@pytest.mark.parametrize(("system", "changes"), SYSTEMS)
def test_as_many_lines_and_sentences_out_as_in(make_pipe, system, changes):
    pipe = make_pipe(system, **changes)
    generator = random.Random(0)
    documents = [random_document(generator) for _ in range(12)]
    for document, result in zip(documents, pipe(documents, batch_size=6, **SHORT), strict=True):
        lines, translated = split_lines(document), split_lines(result["translation_text"])
        assert len(translated) == len(lines) == len(result["sentences"])
        for line, translation in zip(lines, translated, strict=True):
            if not has_letters(line):
                assert translation == line


@pytest.mark.parametrize("text", ["", "\n", "\n\n\r\n", "  \t", "* * *\n1 2 3", "👨‍👩‍👧‍👦 👍🏽🇩🇪", "\u200b"])
def test_text_without_a_letter_comes_back_without_the_model(pipe, generate_inputs, text):
    result = pipe(text)
    assert result["translation_text"] == text
    assert set(statuses(result)) <= {"empty", "copied"}
    assert all(sentence["score"] is None for sentence in result["sentences"])
    assert generate_inputs == []


def test_text_that_the_tokenizer_drops_is_copied(pipe, generate_inputs, monkeypatch):
    from modeling_docmt import pipeline_docmt

    monkeypatch.setattr(pipeline_docmt, "encode_sentences", lambda _, texts: [[] for _ in texts])
    result = pipe("ﾞ\nʰ", **SHORT)
    assert statuses(result) == ["copied", "copied"]
    assert generate_inputs == [] and result["translation_text"] == "ﾞ\nʰ"


def test_copied_and_empty_sentences_never_enter_the_sequence(pipe, generate_inputs, tokenizer):
    pipe("The door.\n\n---\n2\nIt is late.", **SHORT)
    (input_ids,) = generate_inputs
    expected = encode_sentences(tokenizer, ["The door.", "It is late."])
    assert input_ids.tolist() == [[*expected[0], tokenizer.sep_token_id, *expected[1], tokenizer.eos_token_id]]


def test_list_is_a_list_of_documents(pipe):
    single = pipe("The door is open.", **SHORT)
    assert pipe(["The door is open.", "The door is open."], **SHORT) == [single, single]
    assert pipe(("The door is open.",), **SHORT) == [single]
    assert pipe([]) == []
    assert list(pipe((text for text in ["The door is open."]), **SHORT)) == [single]


def test_document_as_list_of_sentences(pipe):
    (result,) = pipe([["The door is open.", "", "It is late."]], **SHORT)
    assert [sentence["source"] for sentence in result["sentences"]] == ["The door is open.", "", "It is late."]
    translations = [sentence["translation"] for sentence in result["sentences"]]
    assert result["translation_text"] == "\n".join(translations)
    assert result["translation_text"] == pipe("The door is open.\n\nIt is late.", **SHORT)["translation_text"]
    assert pipe([[], ["1"]]) == [
        {"translation_text": "", "sentences": []},
        {
            "translation_text": "1",
            "sentences": [{"source": "1", "translation": "1", "status": "copied", "score": None}],
        },
    ]


def test_line_breaks_inside_a_sentence_are_no_borders(pipe):
    (result,) = pipe([["The door\nis open.", "Go"]], **SHORT)
    assert len(result["translation_text"].splitlines()) == len(result["sentences"]) == 2
    assert result["sentences"][0]["source"] == "The door\nis open."


@pytest.mark.parametrize("document", [None, 3, [["nested"]], {"text": "a"}, ["a", 1]])
def test_what_is_no_document_is_refused(pipe, document):
    with pytest.raises(TypeError, match="A document must be a string or a list of sentences"):
        pipe([document])


@pytest.mark.parametrize(("system", "changes"), SYSTEMS)
@pytest.mark.parametrize("num_beams", [1, 3])
def test_batch_size_changes_nothing(make_pipe, toy_documents, system, changes, num_beams):
    pipe = make_pipe(system, dtype=torch.float64, **changes)
    documents = [[], *(record["src"][:5] for record in toy_documents[:8]), "Go.\n\nStay here.", ""]
    alone = pipe(documents, num_beams=num_beams, batch_size=1, **SHORT)
    for batch_size in (3, 16):
        together = pipe(documents, num_beams=num_beams, batch_size=batch_size, **SHORT)
        for left, right in zip(alone, together, strict=True):
            assert left["translation_text"] == right["translation_text"]
            assert statuses(left) == statuses(right)
            scores = [[s["score"] or 0.0 for s in result["sentences"]] for result in (left, right)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-9)


def test_options_of_generate_arrive(make_pipe):
    pipe = make_pipe("concat-document")
    text = "The door is open.\nIt is late."
    for decoding in ("sentence", "counted", "free", "sequential"):
        result = pipe(text, decoding=decoding, num_beams=2, **SHORT)
        assert len(result["sentences"]) == 2
    short = pipe(text, max_sentence_tokens=1)
    assert statuses(short) == ["hit_length_limit"] * 2
    at_construction = make_pipe("concat-document", num_beams=3)
    assert at_construction(text, **SHORT) == pipe(text, num_beams=3, **SHORT)


def test_unknown_option_is_refused(pipe):
    with pytest.raises(ValueError, match="segmentatoin"):
        pipe("The door is open.", segmentatoin="lines")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoding": None}, "decoding=None"),
        ({"decoding": "fast"}, "`decoding` must be one of"),
        ({"segmentation": "words"}, "`segmentation` must be one of"),
        ({"splitter": "punkt"}, "`splitter` must be one of"),
        ({"target_prefix": [[[3]]]}, "`target_prefix`"),
        ({"num_return_sequences": 2, "num_beams": 2}, "`num_return_sequences` must be 1"),
    ],
)
def test_options_without_a_meaning_here_are_refused(pipe, options, message):
    with pytest.raises(ValueError, match=message):
        pipe("The door is open.", **options)


def test_segmentation_at_construction_and_in_a_call(make_pipe):
    pipe = make_pipe(segmentation="sentences", splitter="builtin")
    text = "The door is open.  It is\nlate. Go home.\n"
    assert [s["source"] for s in pipe(text, **SHORT)["sentences"]] == [
        "The door is open.",
        "It is",
        "late.",
        "Go home.",
    ]
    assert len(pipe(text, segmentation="lines", **SHORT)["sentences"]) == 2
    result = pipe(text, segmentation="paragraphs", **SHORT)
    assert [s["source"] for s in result["sentences"]] == ["The door is open.", "It is late.", "Go home."]
    translations = [sentence["translation"] for sentence in result["sentences"]]
    assert result["translation_text"] == "{}  {} {}\n".format(*translations)


def test_translations_of_chinese_sentences_do_not_touch(pipe):
    result = pipe("你好。再见。", segmentation="sentences", splitter="builtin", **SHORT)
    first, second = (sentence["translation"] for sentence in result["sentences"])
    assert result["translation_text"] == f"{first} {second}"


def test_languages_are_checked_against_the_model(make_pipe):
    languages = {"source_lang": "en", "target_lang": "de"}
    pipe = make_pipe(task="translation_en_to_de", **languages)
    assert pipe("1", src_lang="en", tgt_lang="de_DE")["translation_text"] == "1"
    with pytest.raises(ValueError, match="`tgt_lang` must be 'de'"):
        pipe("1", tgt_lang="fr")
    with pytest.raises(ValueError, match="`src_lang` must be 'en'"):
        make_pipe(task="translation_fr_to_de", **languages)


@pytest.mark.parametrize(("system", "changes"), SYSTEMS)
@pytest.mark.parametrize("blank", [" ", ""])
def test_long_sentence_without_punctuation_is_translated_in_pieces(make_pipe, tokenizer, system, changes, blank):
    pipe = make_pipe(system, max_part_tokens=200, **changes)
    sentence = blank.join(["lamp"] * 1600)
    assert len(encode_sentences(tokenizer, [sentence])[0]) > 3000
    result = pipe(f"Before.\n{sentence}\nBehind.", **SHORT)
    assert statuses(result)[1] == "source_split"
    assert len(result["sentences"]) == 3 and len(result["translation_text"].split("\n")) == 3
    assert result["sentences"][1]["source"] == sentence
    assert result["sentences"][1]["score"] < 0


def test_pieces_cover_the_sentence_and_fit(make_pipe, tokenizer):
    pipe = make_pipe(max_part_tokens=30)
    sentence = "The keeper climbed the tower every evening and lit the lamp 👨‍👩‍👧‍👦👨‍👩‍👧‍👦👨‍👩‍👧‍👦 again and again"
    (prepared,) = pipe.preprocess(sentence)["document"].sentences
    text = prepared.pieces[0]
    for joiner, piece in zip(prepared.joiners, prepared.pieces[1:], strict=True):
        text += joiner + piece
    assert text == sentence
    assert all(len(ids) <= 29 for ids in encode_sentences(tokenizer, prepared.pieces))


def test_pieces_without_a_letter_are_copied(make_pipe, tokenizer):
    pipe = make_pipe(max_part_tokens=20)
    sentence = "Go " + "1 2 3 4 5 6 7 8 9 0 " * 20 + "now"
    result = pipe(sentence, **SHORT)
    assert statuses(result) == ["source_split"]
    assert " 1 2 3 4 5 6 7 8 9 0 " in result["translation_text"]


def test_document_of_500_sentences(make_pipe):
    for system, changes in SYSTEMS:
        pipe = make_pipe(system, max_part_tokens=100, **changes)
        sentences = [f"Day {number}." if number % 7 else "" for number in range(500)]
        (result,) = pipe([sentences], max_sentence_tokens=2)
        assert [sentence["source"] for sentence in result["sentences"]] == sentences
        assert [sentence["status"] == "empty" for sentence in result["sentences"]] == [not s for s in sentences]
        assert all(not s["translation"] for s in result["sentences"] if s["status"] == "empty")
        assert result["translation_text"].count("\n") == 499


def test_special_tokens_in_the_text_make_no_sentences(pipe):
    result = pipe("One <sep> two </s> <eos> three <sep1>\n<pad>", **SHORT)
    assert len(result["sentences"]) == 2


def test_lone_surrogates_survive_where_they_are_copied(pipe):
    assert pipe("\ud800\nGo", **SHORT)["translation_text"].startswith("\ud800\n")
    assert statuses(pipe("Go \udc00 on", **SHORT)) != ["copied"]


def test_translation_holds_no_line_break(pipe, monkeypatch):
    from modeling_docmt import pipeline_docmt

    monkeypatch.setattr(pipeline_docmt, "decode_sentences", lambda _, ids: ["a\nb\r\n\u2028c" for _ in ids])
    assert pipe("Go\nHome", **SHORT)["translation_text"] == "a b c\na b c"


def test_other_models_are_refused(tokenizer):
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        **{"vocab_size": len(tokenizer), "d_model": 16, "encoder_layers": 1, "decoder_layers": 1},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
        **{"pad_token_id": 1, "decoder_start_token_id": 1},
    )
    with pytest.raises(ValueError, match="convert_marian"):
        DocumentTranslationPipeline(model=MarianMTModel(config), tokenizer=tokenizer)


def test_pipeline_runs_from_its_folder_without_the_package(make_pipe, tmp_path):
    """A fresh process that cannot import the package, as that of a user of the Hub."""
    pipe = make_pipe("concat-adj", context_sentences=1, source_lang="en", target_lang="de")
    pipe.save_pretrained(tmp_path / "checkpoint")
    text = "The door is open. It is late.\n\n  * * *\nGo."
    code = """
        import json, sys, transformers
        pipe = transformers.pipeline("translation_en_to_de", model=sys.argv[1], trust_remote_code=True, device="cpu")
        assert "modeling_docmt" not in sys.modules
        options = {"segmentation": "sentences", "splitter": "builtin", "num_beams": 2, "max_sentence_tokens": 4}
        print(json.dumps(pipe([sys.argv[2], [sys.argv[2]]], batch_size=2, **options)))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "checkpoint"), text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    options = {"segmentation": "sentences", "splitter": "builtin", "num_beams": 2, **SHORT}
    expected = json.loads(json.dumps(pipe([text, [text]], batch_size=2, **options)))
    assert json.loads(run.stdout) == expected


def test_marian_tokenizer_with_a_separator(make_model, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the door is open\nit is late\ngo home now\n" * 20, encoding="utf-8")
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(tmp_path / side), vocab_size=40, hard_vocab_limit=False, minloglevel=2
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "source.model"))
    pieces = ["</s>", "<unk>", *(processor.id_to_piece(index) for index in range(3, len(processor))), "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
    tokenizer = MarianTokenizer(
        str(tmp_path / "source.model"), str(tmp_path / "target.model"), str(tmp_path / "vocab.json")
    )
    tokenizer.add_special_tokens({"sep_token": "<sep>"})
    model = make_model(
        dtype=torch.float64,
        **{"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None},
        **{"eos_token_id": tokenizer.eos_token_id, "decoder_start_token_id": tokenizer.pad_token_id},
        **{"sep_token_id": tokenizer.sep_token_id, "bod_token_id": None, "sos_token_id": None},
        **{"mask_token_id": None, "first_separator_token_id": None},
    )
    pipe = DocumentTranslationPipeline(model=model, tokenizer=tokenizer, device="cpu")
    text = "the door is open\n\n it is late\n1"
    results = pipe([text, "go home"], batch_size=2, **SHORT)
    assert [len(result["sentences"]) for result in results] == [4, 1]
    singles = pipe([text, "go home"], **SHORT)
    assert [result["translation_text"] for result in results] == [result["translation_text"] for result in singles]
    assert results[0]["translation_text"].endswith("\n1")
