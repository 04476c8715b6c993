"""Small random Marian models, and checkpoint folders like those of OPUS-MT."""

import json
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer


VOCAB_SIZE = 97
LONGEST = 60


def random_marian(vocab_size: int = VOCAB_SIZE, seed: int = 0, **changes) -> MarianMTModel:
    settings = {
        **{"vocab_size": vocab_size, "d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
        **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 128, "init_std": 0.2},
        **{"pad_token_id": vocab_size - 1, "decoder_start_token_id": vocab_size - 1},
        **{"eos_token_id": 0, "forced_eos_token_id": 0, **changes},
    }
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(**settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
            # signs at random, or the model repeats the token that it has just read
            elif "layer_norm" in name:
                parameter.normal_(std=2.0)
        model.final_logits_bias.normal_(std=0.5)
    model.generation_config.update(
        **{"max_length": LONGEST, "bad_words_ids": [[model.config.pad_token_id]], "bos_token_id": 0, "num_beams": 2},
        # random models never end; this way all hypotheses do, at lengths of their own
        exponential_decay_length_penalty=(2, 1.06),
    )
    return model


def write_opus_checkpoint(folder: Path, documents: list[dict], **changes) -> None:
    """Two sentencepiece models, one vocabulary and random weights, as OPUS-MT checkpoints are."""
    pieces: dict[str, None] = {}
    for side, name in (("src", "source"), ("tgt", "target")):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([s for record in documents for s in record[side]]),
            model_prefix=str(folder / name),
            **{"vocab_size": 160, "character_coverage": 1.0, "hard_vocab_limit": False, "minloglevel": 2},
        )
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        pieces |= dict.fromkeys(model.id_to_piece(i) for i in range(len(model)) if not model.is_control(i))
    pieces.pop("<unk>")
    vocabulary = {piece: index for index, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    tokenizer = MarianTokenizer(
        *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")),
        **{"source_lang": "en", "target_lang": "de"},
    )
    tokenizer.save_pretrained(folder)
    random_marian(vocab_size=len(vocabulary), **changes).save_pretrained(folder)
