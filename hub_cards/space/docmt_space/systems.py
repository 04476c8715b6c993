"""The models of the demo: which there are, what each can do, and the calls to them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .attention import AttentionMap, read_attention
from .inputs import check_sentences, check_text
from .translation import Row, Translation


FOLDER = Path(__file__).resolve().parent.parent
# beside the demo, or beside its folder as in the project
DEFAULT_NAME = "docmt-tiny-en-de"
SEGMENTATIONS = {
    "sentences": "Sentences: find them in each line",
    "lines": "Lines: each line is a sentence",
    "paragraphs": "Paragraphs: join wrapped lines, then find the sentences",
}
DECODINGS = {
    "counted": "All at once, as many sentences as the source has (counted)",
    "sequential": "One after another, reading the translations so far (sequential)",
    "free": "All at once, the model decides how many sentences (free)",
    "sentence": "Each sentence by itself (sentence)",
}


def configured_models(environment: Mapping[str, str]) -> dict[str, str]:
    """
    Names of the models, and where they are.

    Args:
        environment (`Mapping[str, str]`):
            `DOCMT_MODELS`: folders, or ids of the Hub with `@` and a revision if wanted, with commas between them. If
            it is not set, the small model that comes with the project.

    Raises:
        `ValueError`: if there is no model.
    """
    given = [entry.strip() for entry in environment.get("DOCMT_MODELS", "").split(",") if entry.strip()]
    if not given:
        places = [parent / DEFAULT_NAME for parent in (FOLDER, FOLDER.parent)]
        given = [str(place) for place in places if (place / "config.json").is_file()][:1]
    if not given:
        raise ValueError(
            "There is no model. Set the variable `DOCMT_MODELS` to ids of the Hub or folders, with commas between "
            f"them, or put a checkpoint into a folder {DEFAULT_NAME} beside app.py."
        )
    names = [entry.rstrip("/").rpartition("/")[2] for entry in given]
    return {name if names.count(name) == 1 else entry: entry for name, entry in zip(names, given, strict=True)}


class System:
    """
    A model that translates documents, loaded when it is first used.

    Args:
        name (`str`): What to call it.
        location (`str`): Folder or id, see `configured_models`.
    """

    def __init__(self, name: str, location: str):
        self.name, self.location = name, location
        self._lock = threading.RLock()
        self._pipe: Any = None

    @property
    def pipe(self) -> Any:
        """The pipeline of the checkpoint, with the code of the checkpoint."""
        with self._lock:
            if self._pipe is None:
                from transformers import pipeline

                location, revision = self.location, None
                if not Path(location).is_dir():
                    location, _, revision = location.partition("@")
                self._pipe = pipeline("translation", location, revision=revision or None, trust_remote_code=True)
            return self._pipe

    @property
    def config(self) -> Any:
        """The `DocMTConfig`."""
        return self.pipe.model.config

    @property
    def sees_context(self) -> bool:
        """Whether a sentence can be translated in the light of others."""
        return self.config.sequence_format != "sentence"

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of source and target language."""
        return self.config.source_lang or "source", self.config.target_lang or "target"

    def decodings(self) -> dict[str, str]:
        """Ways of decoding that mean something for this model, its own default first: name and words for it."""
        if not self.sees_context:
            return {"sentence": DECODINGS["sentence"]}
        if self.config.sequence_format == "source_context":
            count = self.config.context_sentences
            return {"sentence": f"Each sentence behind {count} source sentences (sentence)"}
        own = self.pipe.model.generation_config.to_dict().get("decoding") or self.config.default_decoding
        return {own: DECODINGS[own], **DECODINGS}

    def without_context(self, decoding: str) -> dict[str, Any] | None:
        """Options that translate each sentence by itself; `None` where `decoding` does so already."""
        if self.config.sequence_format == "source_context":
            return {"decoding": "sentence", "source_context_sentences": 0}
        return {"decoding": "sentence"} if self.sees_context and decoding != "sentence" else None

    def translate(
        self,
        text: str,
        *,
        decoding: str,
        num_beams: int,
        segmentation: str,
        report: Callable[[float, str], None] = lambda share, words: None,
    ) -> Translation:
        """
        Translate a document, with context and, where that is something else, without.

        Args:
            text (`str`): The document.
            decoding (`str`): One of `decodings`.
            num_beams (`int`): Beams; 1 is greedy.
            segmentation (`str`): One of `SEGMENTATIONS`.
            report (`Callable[[float, str], None]`): Called with the share that is done, and words for it.

        Raises:
            `ValueError`: if the text is empty or too long for the demo, or an option is not allowed.
        """
        check_text(text)
        if decoding not in self.decodings():
            raise ValueError(
                f"{self.name} does not decode {decoding!r}: choose one of {', '.join(map(repr, self.decodings()))}."
            )
        alone_options = self.without_context(decoding)
        with self._lock:
            prepared = self.pipe.preprocess(text, segmentation=segmentation)["document"].sentences
            check_sentences(len(prepared))
            total = sum(len(sentence.to_translate()) for sentence in prepared)
            rounds = ["translated"] if alone_options is None else ["in context", "by themselves"]
            counter = SentenceCounter(report, total, rounds)
            options = {"num_beams": num_beams, "segmentation": segmentation, "streamer": counter}
            start = time.perf_counter()
            result = self.pipe(text, decoding=decoding, **options)
            # nothing to compare: no sentence went through the model
            alone = self.pipe(text, **alone_options, **options) if alone_options and total else None
            seconds = time.perf_counter() - start
        rows = [
            Row(
                source=sentence["source"],
                translation=sentence["translation"].strip(),
                status=sentence["status"],
                alone=alone["sentences"][index]["translation"].strip() if alone else None,
                was_read=sentence["score"] is not None,
            )
            for index, sentence in enumerate(result["sentences"])
        ]
        source_lang, target_lang = self.languages
        recipe = {
            "model": self.name,
            "system": self.config.system,
            "source_lang": source_lang,
            "target_lang": target_lang,
            "decoding": decoding,
            "num_beams": num_beams,
            "segmentation": segmentation,
        }
        return Translation(result["translation_text"], rows, recipe, seconds)

    def attention(self, translation: Translation, index: int) -> AttentionMap:
        """
        What a sentence of a translated document attended to.

        Args:
            translation (`Translation`): Of this system.
            index (`int`): Row of the sentence, from 0.

        Raises:
            `ValueError`: if the model did not translate the sentence, or its sequence is too long.
        """
        row = translation.rows[index]
        if not row.was_read:
            raise ValueError("This line was not sent to the model: there is nothing in it to translate.")
        if not row.translation:
            raise ValueError("This sentence has no translation, so nothing attended to anything.")
        pairs = [(row.source, row.translation) if row.was_read else ("", "") for row in translation.rows]
        with self._lock:
            return read_attention(
                self.pipe.model, self.pipe.tokenizer, pairs, index, decoding=str(translation.recipe["decoding"])
            )


class SentenceCounter:
    """
    A streamer of `generate()` that counts the sentences of each round.

    Args:
        report (`Callable[[float, str], None]`): Called with the share that is done, and words for it.
        total (`int`): Sentences of a round.
        rounds (`Sequence[str]`): What is done in each round.
    """

    def __init__(self, report: Callable[[float, str], None], total: int, rounds: Sequence[str]):
        self.report, self.total, self.rounds = report, total, rounds
        self.round, self.done = 0, -1

    def put(self, value: Any) -> None:
        """Count a sentence; the first of a round is the start token."""
        self.done += 1
        share = (self.round * self.total + self.done) / (len(self.rounds) * self.total)
        self.report(share, f"{self.done} of {self.total} sentences {self.rounds[self.round]}")

    def end(self) -> None:
        """Begin the next round."""
        self.round, self.done = self.round + 1, -1
