import json
from functools import partial

import pytest
import torch
from hub_server import HubServer, let_clients_through
from huggingface_hub import HfApi
from safetensors.torch import load_file

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer
from training import export
from training.export import main, publish_folder


@pytest.fixture
def trained(make_model, tokenizer, tmp_path):
    make_model("concat-adj").save_pretrained(tmp_path / "trained")
    tokenizer.save_pretrained(tmp_path / "trained")
    return tmp_path / "trained"


def test_half_weights_load_and_run_in_float32(trained, tmp_path):
    target = tmp_path / "published"
    main(["--model", str(trained), "--output_dir", str(target), "--num_beams", "5"])
    assert {t.dtype for t in load_file(target / "model.safetensors").values()} == {torch.float16}
    model = DocMTForConditionalGeneration.from_pretrained(target)
    assert model.dtype == torch.float32
    assert model.generation_config.num_beams == 5 and model.generation_config.decoding == "counted"
    original = DocMTForConditionalGeneration.from_pretrained(trained)
    for (name, ours), (_, theirs) in zip(model.named_parameters(), original.named_parameters(), strict=True):
        assert torch.equal(ours, theirs.half().float()), name


def test_a_published_folder_holds_code_and_tokenizer(trained, tmp_path):
    target = tmp_path / "published"
    target.mkdir()
    (target / "README.md").write_text("card")
    main(["--model", str(trained), "--output_dir", str(target)])
    names = {path.name for path in target.iterdir()}
    assert {"README.md", "modeling_docmt.py", "pipeline_docmt.py", "tokenization_docmt.py", "tokenizer.json"} <= names
    assert "attention_reference.py" not in names and "convert_marian.py" not in names
    assert json.loads((target / "config.json").read_text())["auto_map"]["AutoModel"] == "modeling_docmt.DocMTModel"
    assert len(DocMTTokenizer.from_pretrained(target)) > 500


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no config.json"):
        main(["--model", str(tmp_path), "--output_dir", str(tmp_path / "out")])


@pytest.fixture
def hub(monkeypatch):
    """A Hub on which `training.export` acts for the user ada."""
    with HubServer() as hub:
        let_clients_through(monkeypatch)
        monkeypatch.setattr(export, "HfApi", partial(HfApi, hub.endpoint, token=hub.add_user("ada")))
        yield hub


@pytest.fixture
def folder(tmp_path):
    """A small folder to publish."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return folder


def test_a_published_folder_is_one_commit_of_its_files(hub, folder):
    address = publish_folder(folder, "ada/model")
    assert hub.files("ada/model") == {path.name: path.read_bytes() for path in folder.iterdir()}
    commit = hub.repository("ada/model").at("main")
    assert address == f"{hub.endpoint}/ada/model/commit/{commit.sha}"
    assert commit.parent is not None and commit.parent.parent is None
    (folder / "config.json").write_text("[]", encoding="utf-8")
    publish_folder(folder, "ada/model", revision="next")
    assert hub.files("ada/model")["config.json"] == b"{}"
    assert hub.files("ada/model", "next")["config.json"] == b"[]"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("training_args.bin", "training_args.bin"),
        ("checkpoint-10/trainer_state.json", "checkpoint-10"),
        ("old/scores.pkl", "scores.pkl"),
    ],
)
def test_pickles_and_checkpoints_are_not_published(hub, folder, name, found):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    with pytest.raises(ValueError, match=f"must not be published: {found}"):
        publish_folder(folder, "ada/model")
    assert not hub.repositories


def test_private_weights_do_not_reach_a_public_repository(hub, folder):
    publish_folder(folder, "ada/secret", private=True)
    assert hub.repository("ada/secret").access == "private"
    publish_folder(folder, "ada/secret", private=True)
    HfApi(hub.endpoint, token=next(iter(hub.users))).create_repo("ada/open")
    with pytest.raises(ValueError, match="exists and is public"):
        publish_folder(folder, "ada/open", private=True)
    assert hub.files("ada/open") == {}


def test_options_of_a_repository_need_a_repository(trained, tmp_path):
    for options in (["--private", "true"], ["--revision", "next"]):
        with pytest.raises(ValueError, match="push_to_hub"):
            main(["--model", str(trained), "--output_dir", str(tmp_path / "out"), *options])
