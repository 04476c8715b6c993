import random

import pytest
from transformers import AutoTokenizer

from modeling_docmt import DocMTTokenizer
from modeling_docmt.documents_docmt import decode_documents, encode_documents, encode_sentences, has_letters
from modeling_docmt.tokenization_docmt import SPECIAL_TOKENS
from training.train_tokenizer import train_tokenizer


HARD_TEXTS = [
    "Plain text.",
    "Family: 👩\u200d👩\u200d👧\u200d👦, flag: 🏳️\u200d🌈",
    "שלום and العربية mixed",
    "line\u2028separator, tab\there, CRLF\r\ninside",
    "combining e\u0301, ligature ﬁ, no-break\u00a0space, \u200bzero width",
    "<sep> <sep1> <eos> </s> <mask> <bod> as text",
    "▁ and Ġ are letters to some tokenizers",
    "日本語、中文。",
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def trained(request, toy_documents):
    sentences = [s for record in toy_documents for side in ("src", "tgt") for s in record[side]]
    return train_tokenizer(sentences, vocab_size=560, algorithm=request.param, source_lang="en")


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_every_text_survives_encoding_and_decoding(trained, text):
    assert decode_documents(trained, encode_documents(trained, [[text, text]])) == [[text, text]]


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_text_never_produces_a_special_token(trained, text):
    assert all(i >= len(SPECIAL_TOKENS) for i in encode_sentences(trained, [text])[0])
    assert trained(text).input_ids[-1] == trained.eos_token_id
    assert all(i >= len(SPECIAL_TOKENS) for i in trained(text).input_ids[:-1])


def test_a_lone_surrogate_becomes_the_replacement_character(trained):
    assert decode_documents(trained, trained.encode_documents([["broken \ud83d end"]])) == [["broken \ufffd end"]]
    assert trained("broken \ud83d end").input_ids == trained("broken \ufffd end").input_ids


def test_special_tokens_have_the_ids_that_the_configuration_expects(trained):
    assert trained.convert_ids_to_tokens(list(range(len(SPECIAL_TOKENS)))) == list(SPECIAL_TOKENS)
    assert (trained.bod_token_id, trained.sos_token_id, trained.first_separator_token_id) == (5, 6, 10)
    assert trained.convert_tokens_to_ids("<sep255>") == 264


@pytest.mark.parametrize("loader", [DocMTTokenizer, AutoTokenizer])
def test_saving_and_loading_changes_nothing(trained, loader, tmp_path):
    trained.save_pretrained(tmp_path)
    loaded = loader.from_pretrained(tmp_path, trust_remote_code=True)
    assert type(loaded).__name__ == "DocMTTokenizer"
    assert loaded.init_kwargs["source_lang"] == "en"
    for text in HARD_TEXTS:
        assert loaded(text).input_ids == trained(text).input_ids
        assert loaded.encode_documents([[text, "b"]]) == trained.encode_documents([[text, "b"]])


def test_documents_are_padded_on_the_right_in_the_neutral_form(tokenizer):
    batch = tokenizer([["a", "b"], ["c"]], padding=True, return_tensors="pt")
    a, b, c = encode_sentences(tokenizer, ["a", "b", "c"])
    first, second = [*a, tokenizer.sep_token_id, *b, tokenizer.eos_token_id], [*c, tokenizer.eos_token_id]
    padding = len(first) - len(second)
    assert batch["input_ids"].tolist() == [first, second + [tokenizer.pad_token_id] * padding]
    assert batch["attention_mask"].tolist() == [[1] * len(first), [1] * len(second) + [0] * padding]


def test_documents_come_without_a_mask_where_none_is_wanted(tokenizer):
    assert set(tokenizer([["a b"], ["c"]], padding=True, return_attention_mask=False)) == {"input_ids"}


def test_target_documents_become_labels(tokenizer):
    batch = tokenizer([["a", "b"]], text_target=[["c"]])
    assert batch["labels"] == tokenizer.encode_documents([["c"]])


def test_empty_documents_and_sentences_come_back(tokenizer):
    documents = [[], [""], ["", "a", "", ""]]
    assert tokenizer.decode_documents(tokenizer.encode_documents(documents)) == documents


def test_documents_are_never_truncated(tokenizer):
    with pytest.raises(ValueError, match="truncation"):
        tokenizer([["a"]], truncation=True, max_length=2)


def test_a_string_is_not_taken_for_a_document(tokenizer):
    with pytest.raises(TypeError, match="list of sentences"):
        encode_documents(tokenizer, ["one string"])


def test_random_documents_round_trip(tokenizer):
    rng = random.Random(3)
    for _ in range(50):
        documents = [
            [
                "".join(rng.choice("ab ü.😀") for _ in range(rng.randint(1, 8))).strip()
                for _ in range(rng.randint(0, 4))
            ]
            for _ in range(3)
        ]
        assert tokenizer.decode_documents(tokenizer.encode_documents(documents)) == documents


@pytest.mark.parametrize(
    ("text", "expected"), [("a", True), ("語", True), ("12.5 %", False), ("😀", False), ("", False)]
)
def test_has_letters(text, expected):
    assert has_letters(text) is expected


def test_training_is_deterministic_and_refuses_a_vocabulary_without_room(toy_documents):
    sentences = [s for record in toy_documents for s in record["src"]]
    first, second = (train_tokenizer(sentences, vocab_size=560).backend_tokenizer.to_str() for _ in range(2))
    assert first == second
    with pytest.raises(ValueError, match="larger than 521"):
        train_tokenizer(sentences, vocab_size=521)
    with pytest.raises(ValueError, match="'bpe' or 'unigram', got 'wordpiece'"):
        train_tokenizer(sentences, algorithm="wordpiece")
