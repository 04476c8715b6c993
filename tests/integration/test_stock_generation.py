"""The stock sides of generation: generation configs with our fields, `decoding=None`, streamers."""

import threading

import pytest
import torch
from decoding_models import batch, tiny_model
from transformers import GenerationConfig, TextIteratorStreamer, TextStreamer

from modeling_docmt import SYSTEMS, DocMTForConditionalGeneration
from modeling_docmt.decoding_options_docmt import DocumentOptions


every_system = pytest.mark.parametrize("system", list(SYSTEMS))
DOCUMENTS = [[[22, 23], [24]], [[25, 26, 27]], [[28], [29, 30], [31]]]
# each option at a value that is not its default
OPTIONS = {
    "decoding": "sequential",
    "source_context": "prefix",
    "source_context_sentences": 2,
    "target_context_sentences": 1,
    "max_sentence_tokens": 9,
    "min_sentence_tokens": 2,
    "alignment": "one2one",
    "batch_rows": 7,
    "reuse_cache": False,
}


def test_every_option_of_ours_survives_in_a_generation_config(tmp_path):
    assert OPTIONS.keys() == set(DocumentOptions.names())
    model = tiny_model("window-attn")
    ids = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    model.generation_config = GenerationConfig(
        **OPTIONS, num_beams=3, **{name: getattr(model.config, name) for name in ids}
    )
    model.save_pretrained(tmp_path)
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    assert {name: getattr(loaded.generation_config, name) for name in OPTIONS} == OPTIONS
    inputs = batch(DOCUMENTS, model.config)
    expected = tiny_model("window-attn").generate(**inputs, num_beams=3, **OPTIONS)
    assert torch.equal(loaded.generate(**inputs), expected)
    # saved once more, by the loaded model
    loaded.save_pretrained(tmp_path / "again")
    again = GenerationConfig.from_pretrained(tmp_path / "again")
    assert {name: getattr(again, name) for name in OPTIONS} == OPTIONS


@pytest.mark.parametrize("system", ["concat-adj", "window-attn"])
def test_options_set_on_a_model_are_saved_with_it(system, tmp_path):
    model = tiny_model(system)
    model.generation_config.batch_rows = 5
    model.generation_config.num_beams = 3
    model.save_pretrained(tmp_path)
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path).generation_config
    assert (loaded.batch_rows, loaded.num_beams, loaded.decoding) == (5, 3, model.config.default_decoding)


@every_system
def test_stock_greedy_search_says_what_the_full_pass_does(system):
    model = tiny_model(system)
    inputs = batch(DOCUMENTS, model.config)
    sequences = model.generate(**inputs, decoding=None, max_new_tokens=6)
    mask = torch.ones_like(sequences)
    with torch.no_grad():
        logits = model(**inputs, decoder_input_ids=sequences, decoder_attention_mask=mask).logits
    for row, chosen in zip(sequences.tolist(), logits.argmax(-1).tolist(), strict=True):
        length = row.index(model.config.eos_token_id) if model.config.eos_token_id in row else len(row) - 1
        assert row[1 : length + 1] == chosen[:length]


@every_system
def test_stock_search_streams_token_by_token(system, make_model, tokenizer):
    model = make_model(system)
    inputs = tokenizer([["Run!"]], return_tensors="pt")
    options = {"decoding": None, "max_new_tokens": 5}
    sequence = model.generate(**inputs, **options)[0]
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=60)
    thread = threading.Thread(target=model.generate, kwargs={**inputs, **options, "streamer": streamer})
    thread.start()
    text = "".join(streamer)
    thread.join()
    assert text == tokenizer.decode(sequence[1:])


def test_what_stock_streamers_cannot_do_is_refused_by_transformers(make_model, tokenizer):
    """Document decoding streams whole sentences, with beams too; these limits are those of the stock classes."""
    model = make_model("concat-document")
    options = {"decoding": None, "max_new_tokens": 3, "streamer": TextStreamer(tokenizer)}
    # transformers.generation.utils, `_validate_generation_mode`
    with pytest.raises(ValueError, match="`streamer` cannot be used with beam search"):
        model.generate(**tokenizer([["Run!"]], return_tensors="pt"), num_beams=2, **options)
    # transformers.generation.streamers, `TextStreamer.put`
    with pytest.raises(ValueError, match="only supports batch size 1"):
        model.generate(**tokenizer([["Run!"], ["Who?"]], return_tensors="pt", padding=True), **options)
