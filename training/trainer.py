"""`Seq2SeqTrainer` for documents: batches by tokens, the translation loss, whole documents translated to evaluate."""

import time
from collections.abc import Collection
from typing import Any

import torch
from accelerate.utils import gather_object
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Seq2SeqTrainer, TrainerCallback
from transformers.trainer_utils import EvalLoopOutput
from transformers.utils import logging

from modeling_docmt.configuration_docmt import DocMTConfig, required_token
from modeling_docmt.documents_docmt import decode_documents, encode_documents
from modeling_docmt.loss_docmt import translation_loss

from .arguments import TrainingArguments
from .data import TokenBudgetBatchSampler, TranslationCollator
from .focus_words import FocusWords, read_weights
from .metrics import score_documents
from .word_dropout import WordDropout


logger = logging.get_logger(__name__)


class DocMTTrainer(Seq2SeqTrainer):
    """
    Trains a translation model on the sequences of `encode_corpus`.

    Args:
        model (`PreTrainedModel`): DocMT, or any encoder-decoder model that takes the same ids.
        args (`TrainingArguments`): Training arguments.
        format_config (`DocMTConfig`): The system whose sequences are trained on.
        processing_class (`PreTrainedTokenizerBase`): Tokenizer.
        evaluation_documents (`list[dict]`, *optional*):
            Records translated at every evaluation where `predict_with_generate` is set (DocMT models only). Their
            scores are named `eval_s_bleu`, `eval_d_bleu`, `eval_chrf`, beside `eval_loss`, which is not smoothed.
        loaded_parameters (`Collection[str]`, *optional*):
            Names of the parameters whose learning rate is multiplied by `args.loaded_lr_scale`.
        kwargs: Further arguments of `Seq2SeqTrainer`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        *,
        format_config: DocMTConfig,
        processing_class: PreTrainedTokenizerBase,
        evaluation_documents: list[dict[str, Any]] | None = None,
        loaded_parameters: Collection[str] = (),
        **kwargs,
    ):
        self.format_config = format_config
        self.evaluation_documents = evaluation_documents or []
        self.loaded_parameters = {name for name, _ in model.named_parameters()}.intersection(loaded_parameters)
        self.word_dropout: WordDropout | None = None
        if args.word_dropout:
            self.word_dropout = WordDropout(args.word_dropout, format_config, processing_class)
        self.focus_words: FocusWords | None = None
        if weights := read_weights(args.focus_words):
            self.focus_words = FocusWords(weights, args.focus_source_words, format_config, processing_class)
        self._token_weights: torch.Tensor | None = None
        if kwargs.get("compute_metrics") is not None:
            raise ValueError(
                "`compute_metrics` is never called: evaluation gives the loss, and with `predict_with_generate` the "
                "scores of `evaluation_documents`. Leave it out."
            )
        if isinstance(kwargs.get("eval_dataset"), dict) and self.evaluation_documents:
            raise ValueError("`evaluation_documents` are those of one `eval_dataset`, got several: give one, or none.")
        # whether what is evaluated is the set that `evaluation_documents` belong to
        self._has_documents = False
        super().__init__(
            model=model,
            args=args,
            processing_class=processing_class,
            data_collator=TranslationCollator(
                required_token(format_config, "pad_token_id"),
                required_token(format_config, "decoder_start_token_id"),
                masks_decoder=format_config.has_intervals,
            ),
            compute_loss_func=self._loss,
            **kwargs,
        )
        # the stock smoother is not used: `_loss` smooths, and only while training
        self.label_smoother = None

    def _loss(self, outputs, labels: torch.LongTensor, num_items_in_batch=None) -> torch.Tensor:
        return translation_loss(
            outputs.logits,
            labels,
            self.format_config,
            label_smoothing=self.args.label_smoothing_factor if self.model.training else 0.0,
            num_items_in_batch=num_items_in_batch,
            token_weights=self._token_weights,
        )

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        """The stock optimizer, in whose groups the loaded parameters have a learning rate of their own."""
        is_new = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if is_new and self.args.loaded_lr_scale != 1.0:
            named = (self.model if model is None else model).named_parameters()
            loaded = {id(parameter) for name, parameter in named if name in self.loaded_parameters}
            if len(loaded) < len(self.loaded_parameters):
                raise ValueError(
                    f"`loaded_lr_scale={self.args.loaded_lr_scale}` looks for parameters by name, and a wrapper of "
                    "the model has renamed them: train in another distributed mode, or without it."
                )
            optimizer.param_groups = scaled_groups(optimizer.param_groups, loaded, self.args.loaded_lr_scale)
        return optimizer

    def compute_loss(self, model, inputs, *args, **kwargs):
        """
        The loss, in evaluation too, at the alignment of training: the model does not see the labels.

        DocMT models compute logits at the labels alone, so outputs have no others.
        """
        # Trainer calls `_loss` with the labels alone
        self._token_weights = None
        if self.focus_words and model.training:
            self._token_weights = self.focus_words(inputs["input_ids"], inputs["labels"])
        if self.word_dropout and model.training and self.state.epoch < self.args.word_dropout_epochs:
            hidden = {name: self.word_dropout(inputs[name]) for name in ("input_ids", "decoder_input_ids")}
            inputs = {**inputs, **hidden}
        if self.format_config.cross_attention == "window":
            inputs = {**inputs, "alignment": self.format_config.training_alignment}
        if isinstance(self.model.config, DocMTConfig):
            inputs = {**inputs, "logits_at": inputs["labels"].ne(-100)}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader:
        """Batches of at most `train_batch_tokens` tokens of the longer side."""
        sampler = TokenBudgetBatchSampler(
            self.train_dataset["length"],
            max_tokens=self.args.train_batch_tokens,
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            multiple_of=self.args.world_size,
        )
        return self.accelerator.prepare(
            DataLoader(
                self._remove_unused_columns(self.train_dataset, "training"),
                batch_sampler=sampler,
                collate_fn=self.data_collator,
                num_workers=self.args.dataloader_num_workers,
                pin_memory=self.args.dataloader_pin_memory,
                persistent_workers=self.args.dataloader_persistent_workers,
                prefetch_factor=self.args.dataloader_prefetch_factor,
            )
        )

    def evaluate(self, eval_dataset=None, *args, **kwargs) -> dict[str, float]:
        """The loss, and of the trainer's own `eval_dataset` the scores of `evaluation_documents`, too."""
        self._has_documents = eval_dataset is None or eval_dataset is self.eval_dataset
        return super().evaluate(eval_dataset, *args, **kwargs)

    def predict(self, *args, **kwargs):
        """
        Refused: sequences of a corpus are parts of documents, and documents are what is translated.

        Raises:
            `ValueError`: always; says what to use.
        """
        raise ValueError(
            "`predict` would translate single sequences: use `evaluate(dataset)` for the loss, `translate_records` or "
            "`training.translate` for documents."
        )

    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ) -> EvalLoopOutput:
        """The loss over the sequences of `dataloader`, then the scores of the translated documents."""
        output = super().evaluation_loop(dataloader, description, True, ignore_keys, metric_key_prefix)
        if self.args.predict_with_generate and self.evaluation_documents and self._has_documents:
            scores = self._translation_scores()
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in scores.items()})
        return output

    @torch.no_grad()
    def _translation_scores(self) -> dict[str, float]:
        """Scores over all documents; each process translates its share of them."""
        start = time.perf_counter()
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        mine = self.evaluation_documents[rank::world]
        hypotheses = translate_records(model, self.processing_class, mine, num_beams=self.args.generation_num_beams)
        model.train(was_training)
        pairs = gather_object([(h, record["tgt"]) for h, record in zip(hypotheses, mine, strict=True)])
        scores = score_documents(
            [h for h, _ in pairs],
            [r for _, r in pairs],
            target_lang=self.format_config.target_lang,
            measures=("s-BLEU", "d-BLEU", "chrF"),
        )
        named = {name.lower().replace("-", "_"): entry["score"] for name, entry in scores.items()}
        return {**named, "translation_seconds": round(time.perf_counter() - start, 1)}


def scaled_groups(groups: list[dict[str, Any]], parameters: Collection[int], scale: float) -> list[dict[str, Any]]:
    """
    Split the groups of an optimizer in two, of which the second has another learning rate.

    Args:
        groups (`list[dict]`): `param_groups` of an optimizer; what else they hold, such as weight decay, is kept.
        parameters (`Collection[int]`): `id` of the parameters whose learning rate changes.
        scale (`float`): Its factor.

    Returns:
        `list[dict]`: groups without those that would be empty. The others come first: the learning rate that is logged
        is that of the first group.
    """
    fresh, scaled = [], []
    for group in groups:
        fresh.append({**group, "params": [p for p in group["params"] if id(p) not in parameters]})
        found = [p for p in group["params"] if id(p) in parameters]
        scaled.append({**group, "params": found, "lr": scale * group["lr"]})
    return [group for group in (*fresh, *scaled) if group["params"]]


def translate_records(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, records: list[dict[str, Any]], **generate_kwargs
) -> list[list[str]]:
    """Translate the source side of records with `generate()`, in batches of documents of similar length."""
    neutral = encode_documents(tokenizer, [record["src"] for record in records])
    order = sorted(range(len(records)), key=lambda i: -len(neutral[i]))
    hypotheses: list[list[str]] = [[] for _ in records]
    for start in range(0, len(order), 16):
        rows = order[start : start + 16]
        batch = tokenizer.pad({"input_ids": [neutral[i] for i in rows]}, padding=True, return_tensors="pt")
        sequences = model.generate(
            batch["input_ids"].to(model.device),
            attention_mask=batch["attention_mask"].to(model.device),
            **generate_kwargs,
        )
        for i, sentences in zip(rows, decode_documents(tokenizer, sequences), strict=True):
            hypotheses[i] = sentences
    return hypotheses


class CpuTimeCallback(TrainerCallback):
    """Sums processor seconds of training over interrupted and resumed runs, in the trainer state."""

    def on_train_begin(self, args, state, control, **kwargs):
        self.mark = time.process_time()

    def on_log(self, args, state, control, logs=None, **kwargs):
        now = time.process_time()
        earlier = max((entry.get("cpu_seconds", 0.0) for entry in state.log_history), default=0.0)
        if logs is not None and state.log_history:
            state.log_history[-1]["cpu_seconds"] = earlier + now - self.mark
            self.mark = now
