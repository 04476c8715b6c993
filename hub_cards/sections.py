"""Parts of a model card that come from its configuration, its training and its facts: sentences, lines and rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .card_results import Json
from .costs import hardware_text


DECODING_MODES = {
    "sentence": "each sentence by itself",
    "counted": "a part of the document at once, with exactly as many sentences as went in",
    "free": "a part of the document at once, in as many sentences as the model likes, repaired to those that went in",
    "sequential": "sentence after sentence, with the translations so far",
}


def decoding_sentence(evaluation: Mapping[str, Any] | None) -> str | None:
    """Say how the scored translations were made."""
    if not evaluation or "decoding" not in evaluation:
        return None
    options = evaluation["decoding"]
    beams = "greedy search" if options["num_beams"] == 1 else f"beam search with {options['num_beams']} beams"
    mode = f"`decoding={json.dumps(options['decoding'])}`"
    sentence = f"The scores were made with {mode} and {beams}, in {options['dtype']}"
    kept = ("source_context", "source_context_sentences", "target_context_sentences", "alignment", "length_penalty")
    extra = [f"`{name}={options[name]!r}`" for name in kept if name in options]
    return sentence + (f", {', '.join(extra)}" if extra else "") + "."


def default_decoding_sentence(config: Json) -> str | None:
    """Say how `generate()` and the pipeline decode where they are not told."""
    mode = config.get("default_decoding")
    if mode is None:
        return None
    sentence = f"Where the call does not say otherwise, it decodes with `decoding={json.dumps(mode)}`: "
    return sentence + DECODING_MODES[mode] + "."


def context_sentence(config: Json) -> str | None:
    """Say what the model sees besides the sentence that it translates."""
    sequence_format, count = config.get("sequence_format"), config.get("context_sentences")
    if sequence_format == "sentence":
        return "It translates each sentence by itself; the sentences around it are not seen."
    if sequence_format == "context_window":
        nouns = ("sentence", "it") if count == 1 else (f"{count} sentences", "them")
        return f"It sees the {nouns[0]} before the one that it translates, and its own translation of {nouns[1]}."
    if sequence_format == "source_context":
        noun = "sentence" if count == 1 else f"{count} sentences"
        return f"It sees the source of the {noun} before the one that it translates, not their translation."
    if sequence_format == "document":
        return _document_context(config)
    return None


def _document_context(config: Json) -> str:
    kinds = [config.get(name) for name in ("encoder_self_attention", "decoder_self_attention", "cross_attention")]
    whole = "It sees all sentences of a part of the document, and its own translation of those before."
    if kinds[0] == "window":
        size = f"{config['window_size']} tokens on each side"
        inside = f"A source token sees {size} of it, a target token as many before it"
        if kinds[2] == "window":
            return f"{inside}, and {size} of the place of the source that it is aligned with."
        return f"{inside}, and the whole source of its part."
    if kinds[0] == "sentence" and config.get("global_block", "none") != "none":
        start = "Source sentences are read one by one; a further layer adds all others of their part. "
        if kinds[1] != "recurrent":
            return start + "The translation of a sentence sees its source sentence alone."
        count = config["memory_sentences"]
        return start + (
            "The translation of a sentence sees its source sentence and the "
            f"{'sentence' if count == 1 else f'{count} sentences'} translated just before."
        )
    if kinds[0] == "sentence" and config.get("global_layers"):
        layers = config["global_layers"]
        return (
            "A sentence sees itself, and its translation the source sentence of the same number; in the top "
            f"{'layer' if layers == 1 else f'{layers} layers'} a gate mixes in all others of their part."
        )
    if kinds[0] == "long_short_term":
        return f"{whole} Self-attention looks at each sentence alone, too."
    return whole


def length_sentences(config: Json) -> str | None:
    """Say how long documents may be, and what happens to those that are longer than a sequence."""
    if "sequence_format" not in config:
        return None
    tokens, sentences = config.get("max_part_tokens"), config.get("max_part_sentences")
    lines = ["A document may have any number of sentences."]
    if tokens:
        lines.append(
            f"Nothing is cut in silence: a sequence of more than {tokens:,} tokens is split at sentence boundaries, a "
            "longer sentence at a blank, and the status of that sentence is then `source_split`."
        )
    if sentences and config["sequence_format"] == "document":
        lines.append(f"Parts of at most {sentences} sentences are translated together.")
    if not tokens and not sentences:
        lines.append("It is translated in one part, whatever its length.")
    return " ".join(lines)


def training_title(index: int, trainings: Sequence[Json]) -> str:
    """Say whose training run one of several is, the first being that of the model."""
    training = trainings[index]
    start = training.get("init_from")
    origin = f", which started from `{start}`" if start else ""
    if index == 0:
        return f"This model{origin}:"
    is_marian = training.get("architecture") == "marian"
    kind = "a MarianMTModel of the same size" if is_marian else f"`{training['system']}`"
    folder = training.get("output_dir")
    role = "Its start" if folder and folder == trainings[0].get("init_from") else "For comparison"
    return f"{role}, {kind} (`{training['result_file']}`){origin}:"


def training_lines(training: Json) -> list[str]:
    """
    Describe a training run and what it cost, one line a fact.

    Args:
        training (`dict`):
            Result of `training.train`. Lines whose numbers are missing are left out.
    """
    run, seconds = training.get("run", {}), training.get("metrics", {}).get("train_runtime")
    candidates = [
        ("System `{}`", (training.get("system"),)),
        ("{:,} parameters", (training.get("parameters"),)),
        ("{:,} training sequences, {:,} target tokens", _both(training, "train_sequences", "train_target_tokens")),
        ("{:,} updates of {:,} tokens", _both(training, "updates", "train_batch_tokens")),
        ("{:.2f} passes over the texts", (training.get("epochs"),)),
        ("Cost: {:.0f} minutes, {:.1f} CPU hours", (_over(seconds, 60), _over(training.get("cpu_seconds"), 3600))),
        ("Hardware: {}", (hardware_text(run) or None,)),
        ("Precision: {}; seed {}", (training.get("precision"), training.get("seed"))),
        ("Code: commit `{}`", (run.get("commit"),)),
        ("Command: `{}`", (run.get("command"),)),
    ]
    return [text.format(*values) for text, values in candidates if None not in values]


def _both(result: Json, *keys: str) -> tuple[Any, ...]:
    return tuple(result.get(key) for key in keys)


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def data_rows(trainings: Sequence[Json], licences: Json) -> list[list[str]]:
    """
    List the training texts with their origin and licence.

    Args:
        trainings (`Sequence[dict]`):
            Results of training.
        licences (`dict`):
            Origin and licence by key: `europarl` for `train.en-de.europarl.jsonl.gz`, the last part of the name that
            is a key, and for a file of one part, such as `news/train/documents.jsonl.gz`, one of its folders.

    Raises:
        `ValueError`: for a training file whose licence is not known; such a model must not be published.
    """
    rows = []
    # those of the run that the model started from are in its weights too
    files = dict.fromkeys(file for training in trainings for file in training["train_files"])
    for file in files:
        name = Path(file).name.removesuffix(".gz").removesuffix(".jsonl")
        keys = list(reversed(name.split("."))) if "." in name else [name, *reversed(Path(file).parts[:-1])]
        entry = next((licences[key] for key in keys if key in licences), None)
        if entry is None:
            raise ValueError(
                f"there is no licence for the training file {file!r}. Add it to `data` of the facts of the model, or "
                "to hub_cards/data_licences.yaml, or train without it."
            )
        shown = name if "." in name else file
        rows.append([f"{entry['origin']} (`{shown}`)", entry["licence"], entry.get("note", "")])
    return rows


def example_rows(example: Sequence[Json], translations: Sequence[str]) -> list[list[str]]:
    """Set wrong translations beside what was wanted; what came out as wanted, or is only context, is left out."""
    rows = []
    for sentence, translation in zip(example, translations, strict=True):
        if "why" in sentence and translation != sentence["wanted"]:
            cells = (sentence["source"], translation, sentence["wanted"], sentence["why"])
            rows.append([cell.replace("|", "\\|") for cell in cells])
    return rows


def option_lines(config: Json, options: Mapping[str, str], training: Mapping[str, str], defaults: Json) -> list[str]:
    """
    List the options that matter most to a system, with their values.

    Args:
        config (`dict`): Configuration of the model, or of the preset.
        options (`Mapping[str, str]`): Fields of it, with what they do.
        training (`Mapping[str, str]`): Options of `training.train`, with what they do.
        defaults (`dict`): Their defaults.
    """
    lines = [f"`{name}` ({_value(config[name])}): {text}" for name, text in options.items() if name in config]
    return lines + [f"`--{name}` of training ({_value(defaults[name])}): {text}" for name, text in training.items()]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{json.dumps(value)}`"


def result_sentence(results: Sequence[Mapping[str, Any]]) -> str | None:
    """Name the result files behind the numbers, each with its date and commit."""
    files = []
    for result in results:
        run = result["run"]
        commit = f", commit `{run['commit'][:12]}`" if "commit" in run else ""
        commit += " with changes" if run.get("dirty") else ""
        files.append(f"`{result['result_file']}` ({run['date'][:10]}{commit})")
    return f"All numbers are from {', '.join(files)}." if files else None
