"""
The steps from a sentence-level Transformer to `global-local`, each as a system of this package.

    python -m training.ablations    # the options of `training.train` for each step

`ABLATION_LADDER` has the rows of the ablation study of Zheng et al. (2020), in their order: what a document on the
source side is worth, then one on the target side, then both. Data, shape and optimisation are those of the caller.

Where the package differs from the paper, in all rows that it concerns:

- The encoder has four local layers and a global one behind them, as in the released code; in the paper the global
  layer is the last of as many as the other systems have. All rows have four layers on each side, and pre-norm.
- Documents of one sentence skip the global layer, as in the paper; the code does not skip it.
- A separator stands behind each sentence but the last. It belongs to the source sentence that it closes, and is what
  the decoder reads at the start of the next one, in place of `<bos>`.
- Source and target have one vocabulary, and all embeddings are tied; the code ties those of the target alone.
- Documents are cut into groups of nearly equal numbers of sentences, at most 20. No group remembers another one.
- `docnmt` generates exactly as many sentences as it has read.
- The loss is a mean over target tokens; the code divides it by 20 times the documents.
- The decoder of steps on the source side (`doc2sent` and its additions) has biases, that of the others has none.

Source: Zheng et al. (2020), on the ablation study.
"""

from typing import Any

from modeling_docmt import DocMTConfig


_SHAPE = {"encoder_layers": 4, "decoder_layers": 4, "normalize_before": True}
_GROUPS = {"max_part_tokens": None, "max_part_sentences": 20}
# a decoder that knows its own sentence, and looks at the states of this one in the source
_SENTENCE_DECODER = {
    "decoder_self_attention": "sentence",
    "cross_attention": "sentence",
    "reset_decoder_positions": True,
    "decoder_attention_bias": True,
    "default_decoding": "sequential",
}
_DOC2SENT = _SHAPE | _GROUPS | _SENTENCE_DECODER

# by name, in the order of the paper: row of `SYSTEMS`, and the fields of `DocMTConfig` that differ from it
ABLATION_LADDER: dict[str, tuple[str, dict[str, Any]]] = {
    # 1. one sentence
    "sentnmt": ("sentence-level", _SHAPE),
    # 2. a document as one sequence
    "docnmt": ("concat-document", _SHAPE | _GROUPS),
    # 3. an encoder over the document, one decoder for each sentence
    "doc2sent": ("concat-document", _DOC2SENT),
    # 4. source positions start again in each sentence
    "doc2sent-reset": ("concat-document", _DOC2SENT | {"reset_encoder_positions": True}),
    # 5. embeddings say which sentence it is
    "doc2sent-segments": ("concat-document", _DOC2SENT | {"reset_encoder_positions": True, "segment_embeddings": 20}),
    # 6. sentences meet in the last layer alone, with relative positions of sentences
    "doc2sent-global": ("global-local", _SENTENCE_DECODER | {"global_gate": False}),
    # 7. a gate mixes local and global states
    "doc2sent-gate": ("global-local", _SENTENCE_DECODER),
    # 8. an encoder over one sentence, a decoder that remembers the sentence before
    "sent2doc": ("global-local", {"global_block": "none", "segment_embeddings": None}),
    # 9. the encoder of 7, the decoder of 8
    "global-local": ("global-local", {}),
}


def ablation_config(name: str, **changes: Any) -> DocMTConfig:
    """
    The configuration of a step.

    Args:
        name (`str`): Key of `ABLATION_LADDER`.
        changes: Further fields of `DocMTConfig`, such as sizes.

    Raises:
        `ValueError`: if there is no such step.
    """
    if name not in ABLATION_LADDER:
        raise ValueError(f"`name` must be one of {', '.join(map(repr, ABLATION_LADDER))}, got {name!r}.")
    system, own = ABLATION_LADDER[name]
    return DocMTConfig.from_system(system, **{**own, **changes})


def training_options(name: str) -> list[str]:
    """
    The step as options of `training.train`.

    Args:
        name (`str`): Key of `ABLATION_LADDER`.
    """
    system, changes = ABLATION_LADDER[name]
    options = ["--system", system]
    if changes:
        # None is written as YAML reads it
        values = [f"{field}={'null' if value is None else value}" for field, value in changes.items()]
        options += ["--config_overrides", ",".join(values)]
    return options


def main() -> None:
    """Print the options of each step."""
    for name in ABLATION_LADDER:
        print(f"{name:18}", " ".join(training_options(name)))


if __name__ == "__main__":
    main()
