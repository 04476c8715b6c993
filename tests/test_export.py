import json

import pytest
import torch
from safetensors.torch import load_file

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer
from training.export import main


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
