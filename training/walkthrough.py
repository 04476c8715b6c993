"""
From a few documents to a small document-level translation model, step by step, in half a minute.

    python -m training.walkthrough

Run it as it is, or open it in an editor that knows cells (`# %%`) and go through it one by one. It uses a dozen toy
documents, so the model learns them by heart rather than to translate. It is kept in `runs/walkthrough`.
"""

# %% [markdown]
# ## 1. Documents
# A document is a list of sentences, and its translation a list of as many: sentence i translates sentence i. A
# pronoun, a term or a form of address often depends on an earlier sentence, and can be learned from documents alone.

# %%
from pathlib import Path

import torch
from transformers import pipeline, set_seed

import training
from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.sentences_docmt import source_sentence_ids, target_sentence_ids
from training.arguments import TrainingArguments
from training.data import encode_corpus
from training.documents import load_corpus
from training.metrics import score_documents
from training.train import mean_ratio, token_ids
from training.train_tokenizer import train_tokenizer
from training.trainer import DocMTTrainer, translate_records


set_seed(1)
torch.set_num_threads(1)
FOLDER = "runs/walkthrough"
documents = load_corpus(Path(training.__file__).parents[1] / "tests" / "data" / "toy.en-de.jsonl")
# texts of some sentences: not the ones made to be difficult
documents = documents.filter(lambda record: record["id"] in ("lighthouse", "pronouns", "garden", "quotes"))
print(f"{len(documents)} documents, {sum(map(len, documents['src']))} sentences. One of them:")
pronouns = documents.filter(lambda record: record["id"] == "pronouns")[0]
for source, target in zip(pronouns["src"], pronouns["tgt"], strict=True):
    print(f"    {source}  ->  {target}")

# %% [markdown]
# ## 2. A tokenizer
# One vocabulary serves both languages. Beside pieces of words it has `<sep>`, which stands between two sentences, and
# `<eos>`, which ends a document: that is how a whole document becomes one sequence of tokens.

# %%
sentences = [sentence for side in ("src", "tgt") for document in documents[side] for sentence in document]
tokenizer = train_tokenizer(sentences, vocab_size=700)
ids = tokenizer([pronouns["src"][:2]])["input_ids"][0]
print(tokenizer.convert_ids_to_tokens(ids))

# %% [markdown]
# ## 3. A model
# A system is a set of rules about who sees whom. In `window-attn` a token sees `window_size` tokens on each side, and
# in the source those around the place that it translates, so that documents may be as long as they like.

# %%
config = DocMTConfig.from_system(
    "window-attn",
    **{"window_size": 10, "relative_cross": True, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128},
    **{"vocab_size": len(tokenizer), "decoder_start_token_id": tokenizer.bos_token_id, **token_ids(tokenizer)},
    **{"source_lang": "en", "target_lang": "de", "init_std": 0.05, "dropout": 0.0},
)
sequences = encode_corpus(documents, tokenizer, config)
config.train_ratio = mean_ratio(sequences)
model = DocMTForConditionalGeneration(config)
print(f"{model.num_parameters():,} parameters; training sequences of {list(sequences['source_length'])} source tokens")

# %% [markdown]
# ## 4. Training
# `DocMTTrainer` is the `Seq2SeqTrainer` of Transformers with batches counted in tokens. The loss is the surprise at
# each token of the right translation; it falls from that of a guess, `log(vocabulary)`, as the model learns.

# %%
arguments = TrainingArguments(
    output_dir=FOLDER,
    max_steps=80,
    train_batch_tokens=300,
    learning_rate=0.004,
    warmup_steps=10,
    lr_scheduler_type="cosine",
    label_smoothing_factor=0.0,
    logging_steps=20,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)
trainer = DocMTTrainer(model, arguments, format_config=config, processing_class=tokenizer, train_dataset=sequences)
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print("loss:", ", ".join(f"{loss:.2f}" for loss in losses))

# %% [markdown]
# ## 5. Translation
# The saved folder holds weights, tokenizer and code, and `pipeline` is all that is needed to use it. Each line of a
# text is a sentence; as many come out as went in, each behind the translations of those before it.

# %%
trainer.save_model(FOLDER)
translate = pipeline("translation", model=FOLDER, trust_remote_code=True)
result = translate("\n".join(pronouns["src"]), num_beams=2)
for sentence in result["sentences"]:
    print(f"    {sentence['source']}  ->  {sentence['translation']}  ({sentence['status']})")

# %% [markdown]
# ## 6. Evaluation
# BLEU and chrF compare with the translations of the corpus, sentence by sentence (s-BLEU) or document by document
# (d-BLEU). The model has seen these very documents: on texts of your own, use documents that it has not.

# %%
model.eval()
hypotheses = translate_records(model, tokenizer, list(documents), num_beams=2)
scores = score_documents(hypotheses, documents["tgt"], target_lang="de", measures=("s-BLEU", "d-BLEU", "chrF"))
for name, score in scores.items():
    print(f"    {name} {score['score']:.1f}   {score['signature']}")

# %% [markdown]
# ## 7. Attention
# Of the attention that the words of a translated sentence pay to the source, how much goes to which source sentence?
# A row is a sentence of the translation and adds up to 100 %; most of it should lie near the diagonal.

# %%
model.set_attn_implementation("eager")  # the only one that shows its weights
inputs = tokenizer([pronouns["src"]], return_tensors="pt")
decoder_ids = model.prepare_decoder_input_ids_from_labels(tokenizer([pronouns["tgt"]], return_tensors="pt").input_ids)
with torch.no_grad():
    weights = torch.stack(
        model(**inputs, decoder_input_ids=decoder_ids, output_attentions=True, use_cache=False).cross_attentions
    )
weights = weights.mean(dim=(0, 2))[0]  # of all layers and heads: (target tokens, source tokens)
rows, columns = target_sentence_ids(decoder_ids, config)[0], source_sentence_ids(inputs["input_ids"], config)[0]
count = len(pronouns["src"])
for row in range(count):
    of_row = weights[rows == row].mean(dim=0)
    print("    " + " ".join(f"{100 * of_row[columns == column].sum():4.0f} %" for column in range(count)))
