"""Options of `training.evaluate`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.bootstrap import RESAMPLES, SEED
from training.documents import JSONL_NAME
from training.metrics import ALL_MEASURES, MEASURES, TAGGERS
from training.metrics.comet_score import COMET_MEASURE
from training.results import expand_path


# options of `generate()` that DocMT models alone have
DOCUMENT_OPTIONS = (
    "decoding",
    "source_context",
    "source_context_sentences",
    "target_context_sentences",
    "alignment",
)
# in place of the names of measures: those that fit
ALL = "all"


@dataclass
class EvaluationArguments:
    """What to score, against what, and where the result goes."""

    data: list[str] = field(
        default_factory=list,
        metadata={"help": "Test sets: JSON Lines of documents with `src` and `tgt`, gzip or not."},
    )
    model: str | None = field(
        default=None, metadata={"help": "Model folder to translate the test sets with. Either this or `--hypotheses`."}
    )
    hypotheses: list[str] | None = field(
        default=None,
        metadata={
            "help": "Finished translations, a file a test set: a line a sentence, or JSON Lines with `id`, `tgt`."
        },
    )
    baseline: str | None = field(default=None, metadata={"help": "`copy`: compare with copying the source."})
    baselines: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Other systems to compare with, NAME=PATH each: a folder with `<test set>.jsonl`, such as "
            "`--save_hypotheses` writes, or, of one test set, a file as for `--hypotheses`."
        },
    )
    baseline_hypotheses: list[str] | None = field(
        default=None, metadata={"help": "Translations of a second system to compare with, one file a test set."}
    )
    baseline_name: str = field(
        default="baseline", metadata={"help": "What to call the system of `--baseline_hypotheses`."}
    )
    name: str | None = field(
        default=None, metadata={"help": "Name of the system; by default that of its folder or file."}
    )
    target_lang: str | None = field(
        default=None, metadata={"help": "Target language where the documents do not say it; chooses BLEU's tokenizer."}
    )
    measures: list[str] = field(
        default_factory=lambda: list(MEASURES),
        metadata={
            "help": f"What to compute, of {', '.join(ALL_MEASURES)}, or `{ALL}` that fit the languages and labels of "
            f"a test set; by default {', '.join(MEASURES)}."
        },
    )
    tagger: str = field(
        default="hanta", metadata={"help": f"Finds pronouns for pronoun-F1 and formality-F1: {', '.join(TAGGERS)}."}
    )
    comet: str | None = field(
        default=None, metadata={"help": "COMET checkpoint, a file or its folder; adds the measure COMET."}
    )
    comet_command: str | None = field(
        default=None, metadata={"help": "Command that scores with it; by default `comet-score`."}
    )
    suites: list[str] = field(
        default_factory=list,
        metadata={"help": "Contrastive suites to score with the model too, as `training.contrastive` does."},
    )
    suite_curve: list[int] = field(
        default_factory=list,
        metadata={"help": "Numbers of context sentences to score the suites with, one after the other."},
    )
    context_use: bool = field(
        default=False,
        metadata={"help": "Measure what context is worth to the model, as `training.context_use` does."},
    )
    attention_share: bool = field(
        default=False,
        metadata={"help": "Measure how much cross-attention rests on the aligned sentence, over the translations."},
    )
    num_processes: int = field(
        default=1, metadata={"help": "Processes for `--suites` and `--context_use`, each with the model; for CPUs."}
    )
    num_beams: int = field(default=4, metadata={"help": "Beams a sentence; 1 is greedy."})
    decoding: str | None = field(
        default=None,
        metadata={"help": "sentence, counted, free or sequential; by default as the model was saved."},
    )
    source_context: str | None = field(default=None, metadata={"help": "full or prefix, for sequential decoding."})
    source_context_sentences: int | None = field(
        default=None, metadata={"help": "Source sentences of context, where the decoding takes a number."}
    )
    target_context_sentences: int | None = field(
        default=None, metadata={"help": "Target sentences of context, where the decoding takes a number."}
    )
    alignment: str | None = field(
        default=None, metadata={"help": "Centre of the windows of cross-attention: sent-align, one2one or ratio."}
    )
    length_penalty: float | None = field(default=None, metadata={"help": "Above 0 favours longer translations."})
    batch_size: int = field(default=16, metadata={"help": "Documents (stock models: sentences) translated together."})
    max_documents: int | None = field(default=None, metadata={"help": "Score the first documents of a test set only."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, …; by default a GPU where there is one."})
    dtype: str = field(default="float32", metadata={"help": "Type of the weights: float32, bfloat16, float16, auto."})
    resamples: int = field(default=RESAMPLES, metadata={"help": "Draws of the bootstrap; 0 leaves it out."})
    seed: int = field(default=SEED, metadata={"help": "Seed of the bootstrap, and of shuffled context."})
    output: str | None = field(default=None, metadata={"help": "Result file (JSON)."})
    save_hypotheses: str | None = field(
        default=None,
        metadata={"help": "Folder for the translations: `<test set>.jsonl` with status and score."},
    )
    report: str | None = field(
        default=None, metadata={"help": "HTML page with the scores, and the translations side by side."}
    )

    def __post_init__(self) -> None:
        self.data = [test_set_file(expand_path(path)) for path in self.data]
        self.suites = [expand_path(path) for path in self.suites]
        self._check_systems()
        self._check_model_options()
        unknown = [measure for measure in self.measures if measure not in ALL_MEASURES]
        if unknown and self.measures != [ALL]:
            raise ValueError(f"`--measures` must be of {', '.join(ALL_MEASURES)}, or `{ALL}`, got {unknown[0]!r}.")
        if self.tagger not in TAGGERS:
            raise ValueError(f"`--tagger` must be one of {', '.join(TAGGERS)}, got {self.tagger!r}.")
        if self.comet is None and (COMET_MEASURE in self.measures or self.comet_command is not None):
            raise ValueError("COMET needs a checkpoint: name it with `--comet`, or leave COMET out.")
        least = {"num_beams": 1, "batch_size": 1, "num_processes": 1, "resamples": 0, "max_documents": 1}
        for option, lowest in least.items():
            value = getattr(self, option)
            if value is not None and value < lowest:
                raise ValueError(f"`--{option}` must be {lowest} or more, got {value}.")
        names = [test_set_name(path) for path in self.data]
        if len(set(names)) < len(names):
            raise ValueError(f"`--data` names two test sets alike: {', '.join(names)}. Rename one of the files.")

    def _check_systems(self) -> None:
        if (self.model is None) == (self.hypotheses is None):
            raise ValueError(
                "give either `--model` or `--hypotheses`: the one says what to translate with, the other "
                "where the finished translations are."
            )
        if not self.data and not self.suites:
            raise ValueError("there is nothing to score: name test sets with `--data`, or `--suites` for the model.")
        for option in ("hypotheses", "baseline_hypotheses"):
            files = getattr(self, option)
            if files is not None and len(files) != len(self.data):
                raise ValueError(
                    f"`--{option}` names {len(files)} files for {len(self.data)} test sets of `--data`. Give one for "
                    "each, in the same order."
                )
        if self.baseline not in (None, "copy"):
            raise ValueError(
                f"`--baseline` must be 'copy', got {self.baseline!r}. Translations of another system go into "
                "`--baselines NAME=FOLDER`."
            )
        names = ["copy"] * (self.baseline is not None) + [self.baseline_name] * bool(self.baseline_hypotheses)
        names += [name for name, _ in self.named_baselines()]
        for position, name in enumerate([self.system_name, *names]):
            if name in names[position:]:
                raise ValueError(f"two systems are called {name!r}. Rename one, with `--name` or in `--baselines`.")

    def _check_model_options(self) -> None:
        if len(set(self.suites)) < len(self.suites):
            raise ValueError("`--suites` names a suite twice.")
        if self.suite_curve and not self.suites:
            raise ValueError("`--suite_curve` is a curve of contrastive suites: name them with `--suites`.")
        if self.model is None:
            for option in ("suites", "context_use", "attention_share"):
                if getattr(self, option):
                    raise ValueError(
                        f"`--{option}` looks into a model, which finished translations do not have. Give the model "
                        "with `--model`."
                    )
        if not self.data:
            for option in ("baseline", "baselines", "context_use", "attention_share", "save_hypotheses", "comet"):
                if getattr(self, option):
                    raise ValueError(f"`--{option}` is of no use to suites alone: name test sets with `--data`.")

    def named_baselines(self) -> Iterator[tuple[str, str]]:
        """Name and path of each of `baselines`."""
        for text in self.baselines:
            name, _, path = text.partition("=")
            if not name or not path:
                raise ValueError(f"`--baselines` must be NAME=PATH, got {text!r}.")
            yield name, expand_path(path)

    @property
    def system_name(self) -> str:
        """The name given, or that of the model folder or the first file of hypotheses."""
        if self.name:
            return self.name
        files = [self.model] if self.model is not None else self.hypotheses or []
        return Path(files[0]).resolve().name

    @property
    def scores_sequences(self) -> bool:
        """Whether the model scores translations that are given."""
        return bool(self.suites) or self.context_use


def generation_options(arguments: EvaluationArguments) -> dict[str, Any]:
    """Return the options for `generate()` that were given; the others stay as the model was saved with them."""
    names = (*DOCUMENT_OPTIONS, "length_penalty")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return {"num_beams": arguments.num_beams, **given}


def test_set_file(path: str) -> str:
    """The file of a test set; of a folder of `prepare_corpus`, that with its documents."""
    if not Path(path).is_dir():
        return path
    file = Path(path) / JSONL_NAME
    if not file.is_file():
        raise ValueError(f"`--data`: {path} is a folder without {JSONL_NAME}. Name a file, or run `prepare_corpus`.")
    return str(file)


def test_set_name(path: str) -> str:
    """The file name without its endings, `test.en-de.wesnoth`; of a prepared corpus the name of its folder."""
    if Path(path).name == JSONL_NAME and Path(path).parent.name:
        return Path(path).parent.name
    return Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".parquet")
