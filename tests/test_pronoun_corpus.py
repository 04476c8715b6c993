import json
from collections import Counter

import pytest

from training.documents import read_documents
from training.pronoun_corpus import (
    FORMS,
    INTRODUCTIONS,
    REMARKS,
    Subject,
    found_pronoun,
    introduce,
    main,
    read_subject,
)


DOCUMENTS = [
    (
        ["Open the chest.", "The chest is heavy.", "It has a lock."],
        ["Öffne die Truhe.", "Die Truhe ist schwer.", "Sie hat ein Schloss."],
    ),
    (["A boat comes.", "The boat is small."], ["Ein Kahn kommt.", "Der Kahn ist klein."]),
    (["See the boat!", "The boat can sink."], ["Sieh den Kahn!", "Der Kahn kann sinken."]),
    (["Our house burns.", "The house was old."], ["Unser Haus brennt.", "Das Haus war alt."]),
]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    lines = [
        json.dumps({"id": str(i), "src_lang": "en", "tgt_lang": "de", "src": source, "tgt": target})
        for i, (source, target) in enumerate(DOCUMENTS)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_corpus_has_found_repeated_introduced_and_made_documents(corpus, tmp_path):
    counts = main(["--input_file", str(corpus), "--output_file", str(tmp_path / "out.jsonl"), "--made", "6"])
    assert counts["found"] == {"sie": 1}
    assert counts["repeated"] == {"er": 1, "sie": 1, "es": 1}
    assert counts["introduced"] == {"er": 4, "sie": 4, "es": 4}
    assert counts["made"] == {"er": 2, "sie": 2, "es": 2}
    records = list(read_documents(tmp_path / "out.jsonl"))
    assert len({record["id"] for record in records}) == len(records) == 22
    found = next(record for record in records if record["domain"] == "found")
    assert found["src"] == ["The chest is heavy.", "It has a lock."]
    repeated = {record["pronoun"]: record for record in records if record["domain"] == "repeated"}
    assert repeated["sie"]["src"] == ["Open the chest.", "It is heavy."]
    assert repeated["sie"]["tgt"] == ["Öffne die Truhe.", "Sie ist schwer."]
    assert repeated["es"]["tgt"] == ["Unser Haus brennt.", "Es war alt."]


def test_the_same_seed_makes_the_same_corpus_and_another_one_does_not(corpus, tmp_path):
    def written(name, seed):
        main(["--input_file", str(corpus), "--output_file", str(tmp_path / name), "--seed", str(seed)])
        return (tmp_path / name).read_bytes()

    assert written("a.jsonl", 1) == written("b.jsonl", 1) != written("c.jsonl", 2)


def test_more_context_is_kept_where_the_document_has_it(corpus, tmp_path):
    main(
        ["--input_file", str(corpus), "--output_file", str(tmp_path / "out.jsonl"), "--context_sentences", "2"]
        + ["--made", "0"]
    )
    found = next(r for r in read_documents(tmp_path / "out.jsonl") if r["domain"] == "found")
    assert found["src"] == DOCUMENTS[0][0]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("It works.", "Er geht.", "er"),
        ("It works, and it lasts.", "Er geht, und er hält.", None),
        ("She saw it.", "Sie sah es.", None),
        ("It works.", "Das geht.", None),
        ("The bitter item.", "Sie ist bitter.", None),
    ],
)
def test_a_pronoun_is_found_only_where_nothing_else_can_be_meant(source, target, expected):
    assert found_pronoun(source, target) == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("The old big red chest is here.", "Die Truhe ist da."),
        ("The chests are here.", "Die Truhen sind da."),
        ("The chest is here.", "Hier ist die Truhe."),
        ("The chest with gold is here.", "Die Truhe mit Gold ist da."),
    ],
)
def test_subjects_that_do_not_end_where_they_seem_to_stay(source, target):
    assert read_subject(source, target) is None


def test_made_sentences_have_the_gender_of_the_noun():
    """The articles, whatever the sentence: fails if one form stands for all genders."""
    nouns = {"er": "Kahn", "sie": "Truhe", "es": "Haus"}
    lines = {
        pronoun: {
            introduce(Subject("thing", noun, pronoun, "", ""), introduction)[1] for introduction in INTRODUCTIONS
        }
        for pronoun, noun in nouns.items()
    }
    assert all(len(found) == len(INTRODUCTIONS) for found in lines.values())
    assert {"Ich habe einen Kahn.", "Nimm deinen Kahn mit.", "Man hat einen neuen Kahn gefunden."} <= lines["er"]
    assert {"Ich habe eine Truhe.", "Was ist mit der Truhe passiert?", "Wo ist meine Truhe?"} <= lines["sie"]
    assert {"Ich habe ein Haus.", "Und das Haus?", "Man hat ein neues Haus gefunden."} <= lines["es"]
    assert Counter(map(len, FORMS.values())) == {len(FORMS["er"]): 3}
    assert all(target.count("{") == 1 for _, target in REMARKS)


def test_what_is_missing_is_named(corpus, tmp_path):
    with pytest.raises(ValueError, match="`--input_file` and `--output_file`"):
        main([])
    with pytest.raises(ValueError, match="`--context_sentences` must be 1 or more, got 0"):
        main(["--input_file", str(corpus), "--output_file", str(tmp_path / "x"), "--context_sentences", "0"])
