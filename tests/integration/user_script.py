"""A user's training: `python user_script.py CORPUS.jsonl TOKENIZER OUTPUT_DIR [flags of Seq2SeqTrainingArguments]`."""

import sys

import sacrebleu
from transformers import AutoModelForSeq2SeqLM, HfArgumentParser, Seq2SeqTrainer, Seq2SeqTrainingArguments, set_seed

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration, DocMTTokenizer
from training.data import TranslationCollator, encode_corpus
from training.documents import load_corpus
from training.train import token_ids


corpus, tokenizer_folder, output_dir, *flags = sys.argv[1:]
(args,) = HfArgumentParser(Seq2SeqTrainingArguments).parse_args_into_dataclasses(["--output_dir", output_dir, *flags])
tokenizer = DocMTTokenizer.from_pretrained(tokenizer_folder)
shape = {"vocab_size": len(tokenizer), "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
ids = {**token_ids(tokenizer), "decoder_start_token_id": tokenizer.bos_token_id}
config = DocMTConfig.from_system("window-attn", window_size=4, source_lang="en", target_lang="de", **shape, **ids)
sequences = encode_corpus(load_corpus(corpus), tokenizer, config)


def bleu(prediction) -> dict[str, float]:
    texts = [tokenizer.decode_documents(ids.clip(min=0)) for ids in (prediction.predictions, prediction.label_ids)]
    hypotheses, references = [[" ".join(document) for document in documents] for documents in texts]
    return {"bleu": sacrebleu.corpus_bleu(hypotheses, [references]).score, "documents": len(hypotheses)}


set_seed(args.seed)
model = DocMTForConditionalGeneration(config)
model.generation_config.max_sentence_tokens = 6
data = {"train_dataset": sequences, "eval_dataset": sequences.select(range(4)), "processing_class": tokenizer}
collator = TranslationCollator(config.pad_token_id, config.decoder_start_token_id, masks_decoder=True)
trainer = Seq2SeqTrainer(model, args, data_collator=collator, compute_metrics=bleu, **data)
trainer.train()
trainer.log_metrics("eval", trainer.evaluate())
trainer.save_model()
trainer.save_state()
if trainer.is_world_process_zero():  # the others may be here before it has saved
    AutoModelForSeq2SeqLM.from_pretrained(output_dir).generate(**tokenizer([["Run!"]], return_tensors="pt"))
