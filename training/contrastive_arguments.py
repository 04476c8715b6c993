"""Options of `training.contrastive`."""

from dataclasses import dataclass, field

from modeling_docmt.configuration_docmt import ALIGNMENTS

from .contrastive_readers import FORMATS
from .contrastive_sequences import PRESETS, SCORE_SPANS, STANDARD_CONTEXT
from .results import expand_path


LINE_FILES = ("target_file", "source_context_file", "target_context_file")


@dataclass
class ContrastiveArguments:
    """Options of `contrastive`."""

    model: str = field(metadata={"help": "Model folder."})
    suite: list[str] = field(metadata={"help": "Contrastive suites; of line files, the source."})
    suite_format: str = field(
        default="auto", metadata={"help": "Layout of the suites.", "choices": ["auto", *FORMATS]}
    )
    preset: str = field(
        default="standard",
        metadata={
            "help": "Context of whole-document systems: 'standard', on the left; 'S0', 2 sentences on each side. No "
            "more than the suite holds on both sides.",
            "choices": list(PRESETS),
        },
    )
    source_context_sentences: int | None = field(
        default=None, metadata={"help": "Source sentences before the current one, in place of the preset."}
    )
    target_context_sentences: int | None = field(
        default=None, metadata={"help": "Target sentences before the current one, in place of the preset."}
    )
    right_context_sentences: int | None = field(
        default=None, metadata={"help": "Sentences behind the current one, on both sides, in place of the preset."}
    )
    score_span: str = field(
        default="all",
        metadata={
            "help": "Target tokens that count: 'all'; 'current', those of the sentence in question and of the "
            "separator behind it; 'current+right', from there to the end.",
            "choices": list(SCORE_SPANS),
        },
    )
    normalize_length: bool = field(
        default=False, metadata={"help": "Divide scores by the number of tokens that count."}
    )
    alignment: str | None = field(
        default=None,
        metadata={
            "help": "Alignment of windows in cross-attention; by default that of decoding.",
            "choices": list(ALIGNMENTS),
        },
    )
    curve: list[int] = field(
        default_factory=list,
        metadata={
            "help": "Numbers of context sentences, on both sides, to score with one after the other. With `--plot`, "
            f"by default from 0 to what system and suite have, {STANDARD_CONTEXT} at most."
        },
    )
    documents: str | None = field(
        default=None, metadata={"help": "Folder of the documents in which the context of ContraPro's JSON stands."}
    )
    source_lang: str = field(default="en", metadata={"help": "How the names of its source files end."})
    target_file: str | None = field(default=None, metadata={"help": "Line files: target of the lines of `--suite`."})
    source_context_file: str | None = field(default=None, metadata={"help": "Line files: context of the source."})
    target_context_file: str | None = field(default=None, metadata={"help": "Line files: context of the target."})
    candidates_per_item: int | None = field(
        default=None,
        metadata={
            "help": "Line files: lines of an item; by default it ends where the source or its context change, or the "
            "first translation comes again."
        },
    )
    separator: str | None = field(
        default=None,
        metadata={"help": "For models of another kind: text, or a special token, between sentences of context."},
    )
    max_items: int | None = field(
        default=None, metadata={"help": "So many items of each suite at most, evenly spaced: suites are sorted."}
    )
    batch_tokens: int = field(default=2048, metadata={"help": "Tokens of a batch, both sides and padding included."})
    num_processes: int = field(
        default=1,
        metadata={"help": "Processes that score, each with the model; for CPUs. Their start counts in the time."},
    )
    threads: int | None = field(default=None, metadata={"help": "Threads of each process on the CPU."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, …; by default a GPU where there is one."})
    dtype: str = field(
        default="float32",
        metadata={"help": "Type of the weights.", "choices": ["float64", "float32", "bfloat16", "float16"]},
    )
    output: str | None = field(default=None, metadata={"help": "JSON file of the results."})
    output_scores: str | None = field(
        default=None, metadata={"help": "JSON Lines with the scores of the candidates of each item."}
    )
    plot: str | None = field(
        default=None, metadata={"help": "Picture of accuracy against context sentences; needs matplotlib."}
    )

    def __post_init__(self) -> None:
        self.suite = [expand_path(path) for path in self.suite]
        for name in (*LINE_FILES, "documents"):
            if getattr(self, name) is not None:
                setattr(self, name, expand_path(getattr(self, name)))
        for name in ("batch_tokens", "num_processes", "max_items", "threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"`--{name}` must be 1 or more, got {getattr(self, name)}.")
        if self.target_file is None:
            given = [name for name in (*LINE_FILES, "candidates_per_item") if getattr(self, name) is not None]
            if given:
                raise ValueError(f"`--{given[0]}` belongs to line files: name their target with `--target_file`.")
        elif len(self.suite) > 1:
            raise ValueError(f"`--target_file` is for one suite of line files, got {len(self.suite)} suites.")
        if len(set(self.suite)) < len(self.suite):
            raise ValueError("`--suite` names a suite twice.")

    def line_files(self) -> list[str]:
        """The files of a suite of line files, without its source."""
        return [path for path in (getattr(self, name) for name in LINE_FILES) if path is not None]
