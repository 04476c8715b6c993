import json

import pytest

from training.benchmark import BENCHMARKS, main


@pytest.fixture
def folder(make_model, tokenizer, tmp_path):
    make_model("concat-adj", context_sentences=1).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_benchmark_reports_speed_and_agreement_for_every_mode_and_batch_size(folder, toy_corpus, tmp_path):
    output = tmp_path / "benchmark.json"
    flags = f"--model {folder} --data {toy_corpus} --documents 3 --max_sentences 2 --rounds 1 --num_beams 2"
    main(
        [
            "batches",
            *flags.split(),
            "--batch_sizes",
            "1",
            "3",
            "--decoding",
            "counted",
            "sequential",
            "--output",
            str(output),
        ]
    )
    results = json.loads(output.read_text())
    entries = results["entries"]
    assert [(e["decoding"], e["batch_size"]) for e in entries] == [
        ("counted", 1),
        ("counted", 3),
        ("sequential", 1),
        ("sequential", 3),
    ]
    assert all(e["tokens_per_second"] > 0 for e in entries)
    assert all(len(e["score_gaps_where_they_differ"]) == e["documents_that_differ"] for e in entries)


def test_bad_sizes_are_refused(folder, toy_corpus):
    with pytest.raises(ValueError, match="must be positive"):
        main(["batches", "--model", str(folder), "--data", str(toy_corpus), "--batch_sizes", "0"])
    with pytest.raises(ValueError, match="`rounds` and `threads` must be positive, got 0 and 1"):
        main(["attention", "--rounds", "0"])


def test_the_first_argument_names_the_benchmark(tmp_path, capsys):
    output = tmp_path / "attention.json"
    flags = "--scenarios window --lengths 70 --heads 2 --head_dim 8 --rounds 1"
    results = main(["attention", *flags.split(), "--output", str(output)])
    assert json.loads(output.read_text()) == results
    assert " attention --scenarios window " in results["run"]["command"]
    for argv in ([], ["speed"]):
        with pytest.raises(SystemExit, match="must be one of batches, attention, steps, decoding"):
            main(argv)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="^0$"):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"training.benchmark {name} " in text for name in BENCHMARKS)
