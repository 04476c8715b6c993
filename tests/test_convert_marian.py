"""A converted Marian model must be the same model: logits, greedy and beam-search translations, after saving too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from marian_models import LONGEST, VOCAB_SIZE, random_marian, write_opus_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel, MarianTokenizer

from modeling_docmt import SYSTEMS, DocMTForConditionalGeneration, DocumentTranslationPipeline
from modeling_docmt.convert_marian import (
    DOCUMENT_TOKENS,
    convert_generation_config,
    convert_marian,
    convert_marian_tokenizer,
    main,
)
from modeling_docmt.documents_docmt import decode_documents, encode_documents
from modeling_docmt.formatting_docmt import neutral_to_sentences, sentences_to_neutral


# OPUS-MT as it is (swish, scaled embeddings, one end token at 0, padding last) in small, and other values of each
SHAPES = {
    "opus": {"encoder_layers": 2, "decoder_layers": 2, "activation_function": "swish", "scale_embedding": True},
    "deep encoder, gelu, unscaled": {
        **{"encoder_layers": 3, "decoder_layers": 1, "activation_function": "gelu", "scale_embedding": False},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 8, "encoder_ffn_dim": 24, "decoder_ffn_dim": 72},
    },
    "wide, relu, three tables": {
        **{"encoder_layers": 1, "decoder_layers": 2, "activation_function": "relu", "scale_embedding": True},
        **{"d_model": 48, "tie_word_embeddings": False, "seed": 3},
    },
    "ids elsewhere": {
        **{"encoder_layers": 1, "decoder_layers": 1, "activation_function": "swish", "scale_embedding": True},
        **{"pad_token_id": 3, "decoder_start_token_id": 5, "eos_token_id": 11, "forced_eos_token_id": 11},
    },
}


def random_sentences(config: MarianConfig, lengths: list[int]) -> list[list[int]]:
    special = {config.pad_token_id, config.eos_token_id, config.decoder_start_token_id}
    words = torch.tensor([token for token in range(config.vocab_size) if token not in special])
    return [words[torch.randint(len(words), (length,))].tolist() for length in lengths]


def pad(rows: list[list[int]], pad_token_id: int) -> dict[str, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [pad_token_id] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def marian_translations(marian: MarianMTModel, sentences: list[list[int]], **options) -> list[list[int]]:
    """Translations without decoder start, end and padding."""
    config = marian.config
    batch = pad([[*sentence, config.eos_token_id] for sentence in sentences], config.pad_token_id)
    rows = marian.generate(**batch, **options)[:, 1:].tolist()
    translations = [row[: row.index(config.eos_token_id)] for row in rows]
    # at the limit Marian forces the end at no cost, and document decoding at the model's
    assert max(map(len, translations)) < LONGEST - 2
    return translations


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def marian(request) -> MarianMTModel:
    return random_marian(**request.param)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_logits_of_a_padded_batch_equal_those_of_marian(marian, attention):
    model = convert_marian(marian)
    for either in (marian, model):
        either.set_attn_implementation(attention)
    config = marian.config
    source = pad(random_sentences(config, [1, 7, 13]), config.pad_token_id)
    decoder_input_ids = torch.randint(VOCAB_SIZE, (3, 9))
    with torch.no_grad():
        expected = marian(**source, decoder_input_ids=decoder_input_ids).logits
        logits = model(**source, decoder_input_ids=decoder_input_ids).logits
    torch.testing.assert_close(logits[..., :VOCAB_SIZE], expected, atol=1e-5, rtol=0)
    probability_of_appended_tokens = logits.softmax(dim=-1)[..., VOCAB_SIZE:].sum(dim=-1)
    assert probability_of_appended_tokens.max() < 1e-12


@pytest.mark.parametrize("num_beams", [1, 4])
def test_stock_decoding_gives_the_same_ids(marian, num_beams):
    model = convert_marian(marian)
    sentences = random_sentences(marian.config, [1, 5, 12, 3, 20])
    batch = pad([[*s, marian.config.eos_token_id] for s in sentences], marian.config.pad_token_id)
    expected = marian.generate(**batch, num_beams=num_beams)
    # a document would end at a forced end, so the converted model has none of its own
    translations = model.generate(
        **batch, num_beams=num_beams, decoding=None, forced_eos_token_id=marian.config.eos_token_id
    )
    assert translations.tolist() == expected.tolist()


@pytest.mark.parametrize("num_beams", [1, 4])
def test_sentences_of_documents_are_translated_as_marian_translates_them(marian, num_beams):
    model = convert_marian(marian)
    documents = [random_sentences(marian.config, lengths) for lengths in ([4, 1, 9], [6], [2, 15])]
    expected = [marian_translations(marian, document, num_beams=num_beams) for document in documents]
    neutral = [sentences_to_neutral(document, model.config) for document in documents]
    batch = pad(neutral, marian.config.pad_token_id)
    sequences = model.generate(**batch, num_beams=num_beams, decoding="sentence")
    assert [neutral_to_sentences(row, model.config) for row in sequences.tolist()] == expected


def test_default_decoding_is_that_of_the_marian_checkpoint(marian):
    model = convert_marian(marian)
    (sentence,) = random_sentences(marian.config, [8])
    batch = pad([sentences_to_neutral([sentence], model.config)], marian.config.pad_token_id)
    sequence = model.generate(**batch)[0].tolist()
    assert neutral_to_sentences(sequence, model.config) == marian_translations(marian, [sentence])


def test_saved_model_gives_the_same_logits(marian, tmp_path):
    model = convert_marian(marian)
    model.save_pretrained(tmp_path)
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    source = pad(random_sentences(marian.config, [3, 6]), marian.config.pad_token_id)
    decoder_input_ids = torch.randint(VOCAB_SIZE, (2, 5))
    with torch.no_grad():
        expected = model(**source, decoder_input_ids=decoder_input_ids).logits
        logits = loaded(**source, decoder_input_ids=decoder_input_ids).logits
    assert torch.equal(logits, expected)
    assert loaded.generation_config.bad_words_ids == [[marian.config.pad_token_id]]


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_system_starts_from_all_weights_of_a_marian_model(system):
    # fails if a preset has other norms or no biases, or starts the decoder with another token than it is trained with
    marian = random_marian()
    model = convert_marian(marian, system=system)
    weights = model.state_dict()
    for name, weight in marian.state_dict().items():
        if not re.search("embed_positions|embed_tokens|lm_head|shared|final_logits_bias|out_proj.weight", name):
            assert torch.equal(weights[name], weight), name
    config = model.config
    start = config.sos_token_id if config.use_sos else marian.config.decoder_start_token_id
    assert config.decoder_start_token_id == start and not config.normalize_before
    ids = torch.tensor([[5, 6, config.sep_token_id, 7, config.eos_token_id]])
    assert (model.generate(ids, max_sentence_tokens=3)[0] == config.sep_token_id).sum() == 1


def test_other_systems_can_learn_the_separators():
    marian = random_marian(**SHAPES["opus"])
    model = convert_marian(marian, system="concat-adj", context_sentences=3)
    assert (model.config.sequence_format, model.config.context_sentences) == ("context_window", 3)
    assert model.final_logits_bias[0, model.config.sep_token_id] == 0
    source = torch.tensor([[5, 6, model.config.sep_token_id, 7, 0]])
    loss = model(input_ids=source, labels=source).loss
    loss.backward()
    assert model.get_input_embeddings().weight.grad[model.config.sep_token_id].abs().sum() > 0


def test_conversion_leaves_the_marian_model_as_it_was():
    marian = random_marian(**SHAPES["opus"])
    before = {name: weight.clone() for name, weight in marian.state_dict().items()}
    model = convert_marian(marian)
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    assert marian.config.vocab_size == VOCAB_SIZE
    assert marian.generation_config.forced_eos_token_id == 0
    assert all(torch.equal(weight, before[name]) for name, weight in marian.state_dict().items())


def test_decoding_options_are_carried_over():
    marian = random_marian(**SHAPES["opus"])
    marian.generation_config.update(num_beams=6, length_penalty=0.7)
    options = convert_generation_config(marian.generation_config)
    assert (options.num_beams, options.length_penalty, options.max_length) == (6, 0.7, LONGEST)
    assert options.max_sentence_tokens == LONGEST - 2
    assert options.forced_eos_token_id is None


def test_a_converted_checkpoint_names_its_decoding_mode(tmp_path):
    for system, decoding in (("sentence-level", "sentence"), ("concat-document", "counted")):
        convert_marian(random_marian(), system=system).save_pretrained(tmp_path)
        assert DocMTForConditionalGeneration.from_pretrained(tmp_path).generation_config.decoding == decoding


def test_separate_vocabularies_are_refused_with_the_reason():
    marian = random_marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=120, tie_word_embeddings=False)
    with pytest.raises(ValueError, match="share_encoder_decoder_embeddings=False.*decoder_vocab_size=120"):
        convert_marian(marian)


@pytest.mark.parametrize("switch", [{"normalize_before": True}, {"normalize_embedding": True}])
def test_options_that_marian_models_ignore_are_refused(switch):
    with pytest.raises(ValueError, match=next(iter(switch))):
        convert_marian(random_marian(**SHAPES["opus"], **switch))


# the way of a user: a checkpoint folder with two sentencepiece models in, a DocMT folder out


@pytest.fixture(scope="module")
def opus_folder(tmp_path_factory, toy_documents) -> Path:
    folder = tmp_path_factory.mktemp("opus-mt-en-de")
    write_opus_checkpoint(folder, toy_documents, **SHAPES["opus"])
    return folder


@pytest.fixture(scope="module")
def converted_folder(opus_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    command = [sys.executable, "-m", "modeling_docmt.convert_marian", str(opus_folder), str(folder)]
    subprocess.run(command, check=True, cwd=Path(__file__).parent.parent, capture_output=True)
    return folder


def test_documents_pass_through_the_tokenizer_of_a_checkpoint(converted_folder, toy_documents):
    tokenizer = AutoTokenizer.from_pretrained(converted_folder)
    config = AutoModelForSeq2SeqLM.from_pretrained(converted_folder).config
    assert tokenizer.convert_tokens_to_ids(list(DOCUMENT_TOKENS)) == list(range(config.sep_token_id, len(tokenizer)))
    assert len(tokenizer) == config.vocab_size
    assert (config.source_lang, config.target_lang) == ("en", "de")
    documents = [record["src"] for record in toy_documents if record["id"] in ("lighthouse", "repeated-sentence")]
    encoded = encode_documents(tokenizer, documents)
    assert [len(neutral_to_sentences(ids, config)) for ids in encoded] == [len(document) for document in documents]
    assert decode_documents(tokenizer, encoded) == documents


def test_text_never_becomes_a_separator(converted_folder):
    tokenizer = AutoTokenizer.from_pretrained(converted_folder)
    ((*ids, end),) = encode_documents(tokenizer, [["a <sep> b </s> <sep12> <mask>"]])
    assert end == tokenizer.eos_token_id
    assert not {*tokenizer.convert_tokens_to_ids(list(DOCUMENT_TOKENS)), tokenizer.eos_token_id} & set(ids)


def test_pipeline_translates_line_by_line_as_marian_does(opus_folder, converted_folder, toy_documents):
    marian, marian_tokenizer = MarianMTModel.from_pretrained(opus_folder), MarianTokenizer.from_pretrained(opus_folder)
    document = next(record["src"] for record in toy_documents if record["id"] == "lighthouse")
    batch = marian_tokenizer(document, return_tensors="pt", padding=True)
    rows = marian.generate(**batch, num_beams=4)
    expected = [marian_tokenizer.decode(row, skip_special_tokens=True) for row in rows]

    pipe = DocumentTranslationPipeline(
        model=AutoModelForSeq2SeqLM.from_pretrained(converted_folder),
        tokenizer=AutoTokenizer.from_pretrained(converted_folder),
    )
    (result,) = pipe([document], num_beams=4)
    assert [sentence["translation"] for sentence in result["sentences"]] == expected


def test_tokenizer_of_another_model_is_refused(opus_folder):
    tokenizer = MarianTokenizer.from_pretrained(opus_folder)
    with pytest.raises(ValueError, match="do not belong together"):
        convert_marian_tokenizer(tokenizer, len(tokenizer) - 1)


def test_rows_without_a_token_keep_their_ids(opus_folder):
    tokenizer = MarianTokenizer.from_pretrained(opus_folder)
    vocab_size = len(tokenizer) + 3
    assert convert_marian_tokenizer(tokenizer, vocab_size).sep_token_id == vocab_size


def test_marian_models_trained_with_our_tokenizer_keep_its_ids(tokenizer, tmp_path):
    ids = {name: getattr(tokenizer, name) for name in ("pad_token_id", "eos_token_id")}
    marian = random_marian(len(tokenizer), **SHAPES["opus"], **ids, decoder_start_token_id=tokenizer.bos_token_id)
    marian.save_pretrained(tmp_path / "marian")
    tokenizer.save_pretrained(tmp_path / "marian")
    main([str(tmp_path / "marian"), str(tmp_path / "docmt"), "--source_lang", "en", "--target_lang", "de"])

    model = DocMTForConditionalGeneration.from_pretrained(tmp_path / "docmt")
    assert (model.config.sep_token_id, model.config.vocab_size) == (tokenizer.sep_token_id, len(tokenizer))
    source = tokenizer(["Run!", "The door is open."], return_tensors="pt", padding=True)
    decoder_input_ids = torch.tensor([[tokenizer.bos_token_id, 300, 301]] * 2)
    with torch.no_grad():
        expected = marian(**source, decoder_input_ids=decoder_input_ids).logits
        logits = model(**source, decoder_input_ids=decoder_input_ids).logits
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
