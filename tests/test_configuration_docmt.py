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
        ({"cross_attention": "windowed"}, "`cross_attention` must be one of 'dense', got 'windowed'"),
        ({"d_model": 500, "encoder_attention_heads": 8}, "d_model=500 and encoder_attention_heads=8"),
        ({"context_sentences": 2}, "sequence_format='sentence'"),
        ({"context_sentences": -1}, "0 or more, got -1"),
        ({"max_part_tokens": 1}, "`max_part_tokens`"),
        ({"train_ratio": 0.0}, "`train_ratio` must be positive"),
        ({"context_loss_weight": 1.5}, "`context_loss_weight` must lie between 0 and 1"),
        ({"indexed_separators": True, "first_separator_token_id": None}, "`first_separator_token_id` is needed"),
        ({"sequence_format": "document", "sep_token_id": None}, "`sep_token_id` is needed"),
        ({"default_decoding": "beam"}, "`default_decoding`"),
    ],
)
def test_a_combination_without_meaning_is_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        DocMTConfig(**changes)


def test_separator_ids_are_the_plain_and_the_indexed_ones():
    config = DocMTConfig(sep_token_id=4, first_separator_token_id=10, num_indexed_separators=3)
    assert config.separator_ids() == [4, 10, 11, 12]
    assert DocMTConfig(sep_token_id=4, first_separator_token_id=None).separator_ids() == [4]
