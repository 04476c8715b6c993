"""What a model has learned of a synthetic task: right words, in all and by phenomenon and distance."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.configuration_docmt import required_token
from modeling_docmt.formatting_docmt import sentences_to_neutral
from modeling_docmt.loss_docmt import context_weights

from .data import TranslationCollator, build_sequences
from .synthetic_documents import Mark, SyntheticDocument, WordVocabulary


# the name under which all words are counted, beside the phenomena of the marks
WORDS = "words"


class Scores:
    """Counts of right words, by phenomenon and distance."""

    def __init__(self):
        self._right: dict[str, Counter[int]] = defaultdict(Counter)
        self._all: dict[str, Counter[int]] = defaultdict(Counter)

    def add(self, is_right: bool, mark: Mark | None) -> None:
        """Count a word, under its phenomenon too where it has a mark."""
        for name, distance in [(WORDS, 0)] + ([] if mark is None else [(mark.phenomenon, mark.distance)]):
            self._right[name][distance] += is_right
            self._all[name][distance] += 1

    def accuracy(self, name: str = WORDS) -> float | None:
        """Share of right words of a phenomenon; `None` if there is no such word."""
        return _share(self._right[name].total(), self._all[name].total())

    def summary(self) -> dict[str, float | None]:
        """Accuracy of all words and of each phenomenon."""
        return {name: self.accuracy(name) for name in self._names()}

    def in_detail(self) -> dict[str, Any]:
        """For all words and for each phenomenon: `count`, `accuracy`, and for phenomena the same `by_distance`."""
        details: dict[str, Any] = {}
        for name in self._names():
            right, every = self._right[name], self._all[name]
            details[name] = {"count": every.total(), "accuracy": self.accuracy(name)}
            if name != WORDS:
                details[name]["by_distance"] = {
                    str(distance): {"count": every[distance], "accuracy": _share(right[distance], every[distance])}
                    for distance in sorted(every)
                }
        return details

    def _names(self) -> list[str]:
        return [WORDS, *sorted(name for name in self._all if name != WORDS)]


def _share(right: int, count: int) -> float | None:
    return round(right / count, 4) if count else None


class Examination:
    """
    Documents that a model is asked about, in the sequences of its system.

    Every sentence counts once: of context windows the last one, of several resolutions the whole documents.

    Args:
        documents (`Sequence[SyntheticDocument]`): Documents with their right translations.
        vocabulary (`WordVocabulary`): Ids of the words.
        config (`DocMTConfig`): The model.
        batch_tokens (`int`): Tokens of a batch, padding included.
    """

    def __init__(
        self,
        documents: Sequence[SyntheticDocument],
        vocabulary: WordVocabulary,
        config: DocMTConfig,
        batch_tokens: int = 4096,
    ):
        self.documents = list(documents)
        self.vocabulary = vocabulary
        self.config = config
        self.collator = TranslationCollator(
            required_token(config, "pad_token_id"),
            required_token(config, "decoder_start_token_id"),
            masks_decoder=config.has_intervals,
        )
        # what is asked at each label: the number of an entry here, or -1 where there is no word that counts
        self._marks: list[Mark | None] = [None]
        self._batches = self._make_batches(batch_tokens)

    def _make_batches(self, batch_tokens: int) -> list[dict[str, torch.Tensor]]:
        rows = [row for document in self.documents for row in self._rows(document)]
        longest = max(max(len(row["input_ids"]), len(row["labels"])) for row in rows)
        size = max(1, batch_tokens // longest)
        batches = []
        for start in range(0, len(rows), size):
            chunk = rows[start : start + size]
            batch = self.collator(chunk)
            questions = torch.full_like(batch["labels"], -1)
            for index, row in enumerate(chunk):
                questions[index, : len(row["questions"])] = torch.tensor(row["questions"])
            batches.append(batch | {"questions": questions})
        return batches

    def _rows(self, document: SyntheticDocument) -> list[dict[str, list[int]]]:
        source, target = self.vocabulary.encode(document.source), self.vocabulary.encode(document.target)
        # questions take the way of the words into the sequences: ids behind the vocabulary are told from its tokens
        first = len(self.vocabulary)
        questions = [[first] * len(sentence) for sentence in target]
        for mark in document.marks:
            questions[mark.sentence][mark.word] = first + len(self._marks)
            self._marks.append(mark)
        rows = []
        for (input_ids, labels), (_, asked) in zip(
            build_sequences(source, target, self.config, resolutions="document"),
            build_sequences(source, questions, self.config, resolutions="document"),
            strict=True,
        ):
            counts = self._counting(labels)
            numbers = [
                token - first if is_counted and token >= first else -1
                for token, is_counted in zip(asked, counts, strict=True)
            ]
            rows.append({"input_ids": input_ids, "labels": labels, "questions": numbers})
        return rows

    def _counting(self, labels: list[int]) -> list[bool]:
        """Of a context window, only the last sentence."""
        if self.config.sequence_format != "context_window":
            return [True] * len(labels)
        return context_weights(torch.tensor([labels]), self.config, 0.0)[0].bool().tolist()

    @torch.no_grad()
    def read(self, model: DocMTForConditionalGeneration) -> Scores:
        """Ask for each word behind the right translation of all before it."""
        scores = Scores()
        for batch, logits in self._logits(model):
            is_right = logits.argmax(dim=-1) == batch["labels"]
            asked = batch["questions"] >= 0
            for number, right in zip(batch["questions"][asked].tolist(), is_right[asked].tolist(), strict=True):
                scores.add(right, self._marks[number])
        return scores

    @torch.no_grad()
    def logits_at_marks(self, model: DocMTForConditionalGeneration) -> torch.Tensor:
        """Logits of the words that have marks, `(marks, vocab_size)`, each behind the right translation."""
        return torch.cat([logits[batch["questions"] > 0] for batch, logits in self._logits(model)])

    def _logits(self, model: DocMTForConditionalGeneration) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        was_training = model.training
        model.eval()
        # windows stand where they stood in training, as the lengths are known
        options = {"alignment": self.config.training_alignment} if self.config.cross_attention == "window" else {}
        for batch in self._batches:
            inputs = {name: tensor for name, tensor in batch.items() if name not in ("labels", "questions")}
            yield batch, model(**inputs, **options, use_cache=False).logits
        model.train(was_training)

    @torch.no_grad()
    def translate(self, model: DocMTForConditionalGeneration, count: int, **options: Any) -> dict[str, Any]:
        """
        Translate the first documents, greedily and with the decoding of the system.

        Args:
            model (`DocMTForConditionalGeneration`): The model.
            count (`int`): How many documents.
            options: Of `generate()`, in place of the defaults.

        Returns:
            `dict`: `words` and each phenomenon as in [`Scores.in_detail`], a word being right at its place in its
            sentence, and under `sentences` the `count`, the `accuracy` of whole ones, and the `status` of all.
        """
        was_training = model.training
        model.eval()
        documents = self.documents[:count]
        scores, status, exact = Scores(), Counter[str](), 0
        rows = [sentences_to_neutral(self.vocabulary.encode(document.source), self.config) for document in documents]
        # not the collator of sequences: documents go in as the tokenizer would give them
        longest, padding = max(map(len, rows)), required_token(self.config, "pad_token_id")
        output = model.generate(
            input_ids=torch.tensor([row + [padding] * (longest - len(row)) for row in rows]),
            attention_mask=torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]),
            return_dict_in_generate=True,
            **{"num_beams": 1, **options},
        )
        for document, hypothesis, states in zip(documents, output.sentences, output.sentence_status, strict=True):
            marks = {(mark.sentence, mark.word): mark for mark in document.marks}
            status.update(states)
            for index, (words, reference) in enumerate(
                zip(hypothesis, self.vocabulary.encode(document.target), strict=True)
            ):
                exact += words == reference
                for place, word in enumerate(reference):
                    scores.add(words[place : place + 1] == [word], marks.get((index, place)))
        model.train(was_training)
        sentences = {"count": status.total(), "accuracy": _share(exact, status.total()), "status": dict(status)}
        return scores.in_detail() | {"sentences": sentences}
