import pytest

from modeling_docmt import SYSTEMS, DocMTConfig


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_system_survives_saving_and_loading(system, tmp_path):
    config = DocMTConfig.from_system(system, source_lang="en", target_lang="de")
    config.save_pretrained(tmp_path)
    loaded = DocMTConfig.from_pretrained(tmp_path)
    for name in ("system", "sequence_format", "context_sentences", "default_decoding", "custom_pipelines", "auto_map"):
        assert getattr(loaded, name) == getattr(config, name)


def test_languages_name_the_translation_task():
    config = DocMTConfig(source_lang="en", target_lang="de")
    assert set(config.custom_pipelines) == {"translation", "translation_en_to_de"}
    assert config.custom_pipelines["translation"]["impl"] == "pipeline_docmt.DocumentTranslationPipeline"


def test_unknown_system_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="'concat-adj'.*got 'concat'"):
        DocMTConfig.from_system("concat")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cross_attention": "windowed"}, "one of 'dense', 'window', 'sentence', got 'windowed'"),
        ({"d_model": 500, "encoder_attention_heads": 8}, "d_model=500 and encoder_attention_heads=8"),
        ({"context_sentences": 2}, "sequence_format='sentence'"),
        ({"context_sentences": -1}, "0 or more, got -1"),
        ({"max_part_tokens": 1}, "`max_part_tokens`"),
        ({"train_ratio": 0.0}, "`train_ratio` must be positive"),
        ({"context_loss_weight": 1.5}, "`context_loss_weight` must lie between 0 and 1"),
        ({"indexed_separators": True, "first_separator_token_id": None}, "`first_separator_token_id` is needed"),
        ({"sequence_format": "document", "sep_token_id": None}, "`sep_token_id` is needed"),
        ({"default_decoding": "beam"}, "`default_decoding`"),
        (
            {"cross_attention": "long_short_term"},
            "`cross_attention` must be one of 'dense', 'window', 'sentence', got",
        ),
        ({"encoder_self_attention": "window"}, "`window_size` must be 0 or more for window attention, got None"),
        ({"cross_attention": "window", "window_size": -1}, "`window_size` must be 0 or more .* got -1"),
        ({"position_encoding": "relative"}, "belongs to windows.*got 'dense' and 'dense'"),
        (
            {"position_encoding": "relative", "encoder_self_attention": "window", "window_size": 2},
            "`decoder_self_attention='window'`, got 'window' and 'dense'",
        ),
        ({"position_encoding": "rotary"}, "`position_encoding` must be one of 'sinusoidal', 'relative'"),
        ({"relative_heads": "all"}, "`relative_heads` must be one of 'separate', 'shared', 'scalar'"),
        ({"lst_mode": "separate"}, "`lst_mode` must be one of 'shared', 'heads'"),
        ({"alignment": "linear"}, "`alignment` must be one of 'one2one', 'ratio', 'sent-align', got 'linear'"),
        ({"relative_distances": -1}, "`relative_distances` must be 0 or more, or None, got -1"),
        (
            {"relative_distances": 4, "encoder_self_attention": "long_short_term"},
            "`relative_distances` is for dense and window self-attention.*got 'long_short_term', 'dense'",
        ),
        ({"relative_distances": 4, "decoder_attention_heads": 4}, "heads of one size.*got 8 and 4 heads"),
        ({"global_layers": 2}, "`global_layers` belongs to 'sentence' attention, got global_layers=2"),
        ({"global_layers": -1, "cross_attention": "sentence"}, "`global_layers` must be 0 or more, got -1"),
        ({"training_resolutions": "multi"}, "belongs to `sequence_format='document'`, got 'sentence'"),
        ({"training_resolutions": "many"}, "`training_resolutions` must be one of 'document', 'multi'"),
        ({"max_part_sentences": 0}, "`max_part_sentences` must be at least 1, or None for no limit, got 0"),
        (
            {"sequence_format": "source_context", "default_decoding": "counted"},
            "use `default_decoding='sentence'`, got 'counted'",
        ),
        (
            {"sequence_format": "source_context", "cross_attention": "sentence"},
            "use `cross_attention='dense'`, got 'sentence'",
        ),
        ({"training_alignment": "line"}, "`training_alignment` must be one of 'one2one', 'linear'"),
    ],
)
def test_a_combination_without_meaning_is_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        DocMTConfig(**changes)


def test_windows_and_views_are_told_apart_from_dense_attention():
    assert not DocMTConfig().has_intervals and not DocMTConfig.from_system("concat-document").has_intervals
    for place in ("encoder_self_attention", "decoder_self_attention", "cross_attention"):
        # a window of one key is a window
        config = DocMTConfig(**{place: "window"}, window_size=0)
        assert config.has_intervals and config.window == 0
    assert DocMTConfig.from_system("lst-attn").has_intervals
    with pytest.raises(ValueError, match="`window_size` is needed"):
        _ = DocMTConfig().window


def test_window_attention_is_the_published_one():
    config = DocMTConfig.from_system("window-attn")
    kinds = (config.encoder_self_attention, config.decoder_self_attention, config.cross_attention)
    assert kinds == ("window",) * 3 and config.window_size == 20 and config.position_encoding == "relative"
    assert (config.training_alignment, config.alignment) == ("linear", "sent-align")
    assert config.default_decoding == "sequential" and config.max_part_tokens is None


def test_separator_ids_are_the_plain_and_the_indexed_ones():
    config = DocMTConfig(sep_token_id=4, first_separator_token_id=10, num_indexed_separators=3)
    assert config.separator_ids() == [4, 10, 11, 12]
    assert DocMTConfig(sep_token_id=4, first_separator_token_id=None).separator_ids() == [4]
