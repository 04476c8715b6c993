"""Models at home on the Hub: published by the usual methods, loaded by a user who has nothing but their names."""

import json
from pathlib import Path

import pytest
import torch
from hub_processes import REPOSITORY, run
from hub_server import HubServer

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer, DocumentTranslationPipeline


SHIPPED = REPOSITORY / "hub_cards" / "docmt-tiny-en-de"
VERSIONS = "ada/docmt-v1.5"
OPTIONS = {"max_sentence_tokens": 8}
# weights of `publish_versions`, by the name under which the user asks for them
SEEDS = {"main": 1, "tag": 0, "branch": 2, "commit": 0}
BEAMS = (2, 1, 3)
CLASSES = ["DocMTConfig", "DocMTTokenizer", "DocMTModel", "DocMTForConditionalGeneration"]


@pytest.fixture(scope="module")
def hub():
    with HubServer() as hub:
        yield hub


@pytest.fixture(scope="module")
def models(make_model) -> list[DocMTForConditionalGeneration]:
    languages = {"source_lang": "en", "target_lang": "de"}
    models = [make_model("concat-adj", seed=seed, context_sentences=1, **languages) for seed in range(3)]
    for model, num_beams in zip(models, BEAMS, strict=True):
        model.generation_config.num_beams = num_beams
        # random weights that are far enough apart for translations to differ
        with torch.no_grad():
            model.get_input_embeddings().weight.normal_(std=0.5)
    return models


@pytest.fixture(scope="module")
def tokens(hub) -> dict[str, str]:
    return {name: hub.add_user(name) for name in ("ada", "eve")}


@pytest.fixture(scope="module")
def published(hub, tokens, models, tokenizer, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("publisher")
    for name, model in zip(("first", "second", "third"), models, strict=True):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    environment = hub.environment(folder / "hf", tokens["ada"])
    results = run("hub_publisher.py", str(folder), folder=folder, environment=environment, has_package=True)
    hub.repository("ada/pipeline").access = "gated"
    return results


@pytest.fixture(scope="module")
def user_folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def inputs(published, tokens, toy_documents) -> dict:
    documents = [record["src"][:3] for record in toy_documents if record["id"] in ("one-sentence", "pronouns")]
    return {"documents": documents, "options": OPTIONS, "tokens": tokens, **published}


@pytest.fixture(scope="module")
def user(hub, inputs, user_folder) -> dict:
    """What a user saw who is not logged in, with an empty cache."""
    (user_folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    environment = hub.environment(user_folder / "hf")
    return run("hub_user.py", "inputs.json", folder=user_folder, environment=environment)


@pytest.fixture(scope="module")
def offline(hub, user, user_folder) -> dict:
    """What the same user saw after the network had gone, and how many requests went out all the same."""
    before = len(hub.requests)
    environment = {**hub.environment(user_folder / "hf"), "HF_HUB_OFFLINE": "1"}
    outputs = run("hub_user.py", "inputs.json", folder=user_folder, environment=environment)
    return {**outputs, "requests": len(hub.requests) - before}


@pytest.fixture(scope="module")
def expected(models, tokenizer, inputs) -> list[list[str]]:
    """Translations by the models that were published, as they are here."""
    pipes = [DocumentTranslationPipeline(model=model, tokenizer=tokenizer) for model in models]
    return [[r["translation_text"] for r in pipe(inputs["documents"], **OPTIONS)] for pipe in pipes]


def test_each_revision_translates_as_what_was_pushed(user, expected):
    assert len({str(translations) for translations in expected}) == 3
    assert user["versions"] == {name: expected[seed] for name, seed in SEEDS.items()}
    assert user["pair"] == expected[SEEDS["main"]]


def test_auto_classes_load_by_the_name_of_the_repository(user, expected):
    loaded = user["loaded"]
    assert loaded["classes"] == CLASSES
    assert all(module.startswith("transformers_modules.ada.") for module in loaded["modules"]), loaded["modules"]
    assert ["\n".join(sentences) for sentences in loaded["sentences"]] == expected[SEEDS["main"]]
    assert loaded["base_agrees"]


def test_generation_config_is_that_of_the_last_push(user, hub):
    revisions = ("v1.5.0", "main", "more/training")
    pushed = [json.loads(hub.files(VERSIONS, revision)["generation_config.json"]) for revision in revisions]
    assert tuple(config["num_beams"] for config in pushed) == BEAMS
    assert user["loaded"]["num_beams"] == BEAMS[SEEDS["main"]]


def test_folder_of_the_shipped_model_is_a_repository(user, hub, inputs):
    model = DocMTForConditionalGeneration.from_pretrained(SHIPPED)
    pipe = DocumentTranslationPipeline(model=model, tokenizer=DocMTTokenizer.from_pretrained(SHIPPED))
    assert user["shipped"] == [r["translation_text"] for r in pipe(inputs["documents"], **OPTIONS)]
    files = hub.files("ada/docmt-tiny-en-de")
    assert set(files) == {path.name for path in SHIPPED.iterdir() if path.is_file()}
    assert files["model.safetensors"] == (SHIPPED / "model.safetensors").read_bytes()


def test_repositories_hold_code_and_no_pickles(published, hub):
    for name in (VERSIONS, "ada/pipeline", "ada/private"):
        files = set(hub.files(name))
        assert {"README.md", "model.safetensors", "tokenizer.json", "generation_config.json"} <= files, name
        assert {"configuration_docmt.py", "modeling_docmt.py", "pipeline_docmt.py", "tokenization_docmt.py"} <= files
        assert {Path(file).suffix for file in files} == {".md", ".json", ".py", ".safetensors"}, name


def test_second_push_changes_weights_and_keeps_code(published, hub):
    first, second = hub.files(VERSIONS, "v1.5.0"), hub.files(VERSIONS)
    assert set(first) == set(second)
    changed = {path for path in first if first[path] != second[path]}
    assert changed == {"model.safetensors", "generation_config.json"}
    assert hub.repository(VERSIONS).branches["main"].title == "Train on"


def test_export_publishes_to_a_private_repository_and_a_branch(user, published, hub, expected):
    repository = hub.repository("ada/private")
    assert repository.access == "private"
    assert set(repository.branches) == {"main", "candidate"}
    assert b"# Private" in hub.files("ada/private", "candidate")["README.md"]
    assert user["private"] == user["gated"] == expected[0]


def test_user_passes_a_model_on_with_its_code(user, published, hub, expected):
    original, copy = hub.files(VERSIONS, "v1.5.0"), hub.files("eve/fine-tuned")
    assert {path: data for path, data in original.items() if path.endswith(".py")} == {
        path: data for path, data in copy.items() if path.endswith(".py")
    }
    # "ada/docmt-v1.5--modeling_docmt.DocMTModel" would run whatever the other repository holds by then
    assert not any(b"--" in copy[path] for path in ("config.json", "tokenizer_config.json"))
    assert user["copy"] == expected[0]


def test_cache_is_enough_without_network(offline, user, expected):
    assert offline["requests"] == 0
    assert offline["versions"] == user["versions"]
    assert offline["loaded"] == user["loaded"]
    assert offline["shipped"] == user["shipped"]


@pytest.mark.slow
def test_trainer_publishes_what_it_saves(hub, tokens, toy_corpus, tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    environment = hub.environment(tmp_path / "hf", tokens["ada"])
    arguments = (str(toy_corpus), "tokenizer")
    results = run("hub_trainer.py", *arguments, folder=tmp_path, environment=environment, has_package=True)
    assert results["updates"] == 2
    files = hub.files("ada/trained")
    for name in ("model.safetensors", "config.json", "tokenizer.json", "pipeline_docmt.py"):
        assert files[name] == (tmp_path / "trained" / name).read_bytes(), name
    # the trainer of Transformers writes its arguments as a pickle; `training.export` publishes without it
    assert {path for path in files if path.endswith((".bin", ".pt", ".pkl"))} <= {"training_args.bin"}


TRUST = "trust_remote_code=True"
ERRORS = [
    ("no trust: AutoConfig", "ValueError", TRUST),
    ("no trust: AutoTokenizer", "ValueError", TRUST),
    ("no trust: AutoModel", "ValueError", TRUST),
    ("no trust: AutoModelForSeq2SeqLM", "ValueError", TRUST),
    ("no trust: pipeline", "ValueError", TRUST),
    ("no trust: asked", "ValueError", TRUST),
    ("no such repository", "RepositoryNotFoundError", "ada/nothing"),
    ("no such repository, known user", "RepositoryNotFoundError", "ada/nothing"),
    ("no such revision", "RevisionNotFoundError", "v9"),
    ("no such file", "RemoteEntryNotFoundError", "nothing.json"),
    ("no weights", "OSError", "model.safetensors"),
    ("no code", "OSError", "formatting_docmt.py"),
    ("no such pair", "KeyError", "translation_en_to_fr"),
    ("private, nobody", "RepositoryNotFoundError", "ada/private"),
    ("private, unknown token", "HfHubHTTPError", "ada/private"),
    ("private, somebody else", "RepositoryNotFoundError", "ada/private"),
    ("private, pipeline", "RepositoryNotFoundError", "ada/private"),
    ("gated, nobody", "GatedRepoError", "ada/pipeline"),
    ("gated, somebody else", "GatedRepoError", "ada/pipeline"),
]


@pytest.mark.parametrize(("case", "name", "message"), ERRORS, ids=[case for case, *_ in ERRORS])
def test_failures_are_the_usual_ones(user, case, name, message):
    error = user["errors"][case]
    assert name in error["names"], error["trace"]
    assert message in error["message"], error["trace"]
