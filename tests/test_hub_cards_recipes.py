"""Cards of recipes that nobody has trained, and the papers that cards cite."""

import copy
import dataclasses
import re
import shlex

import pytest
import yaml
from hub_card_results import LICENCES, TRAINING, check_filled
from huggingface_hub import ModelCard

from hub_cards.build import main, parse_arguments
from hub_cards.card import FOLDER, build_card, load_yaml
from hub_cards.citation import PAPER_OF_CONTEXT_USE, PAPERS_OF_MEASURES, PAPERS_OF_SUITES, citation_text, read_papers
from hub_cards.recipe import expected_section, find_recipe, recipes_by_system
from modeling_docmt import SYSTEMS, DocMTConfig
from training.arguments import DataArguments, ModelArguments, TrainingArguments
from training.evaluate import parse_arguments as parse_evaluation
from training.recipes_expected import Expected


ROOT = FOLDER.parent
OF_SYSTEMS = load_yaml(FOLDER / "systems.yaml")


@pytest.fixture(scope="module")
def cards():
    """The card of each recipe, as the command prints it."""
    return {system: build_card({}, LICENCES, [], model_name=system, system=system) for system in SYSTEMS}


def test_every_system_has_its_words():
    assert list(OF_SYSTEMS) == list(SYSTEMS)
    summaries = [facts["summary"] for facts in OF_SYSTEMS.values()]
    assert len(set(summaries)) == len(SYSTEMS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_card_of_a_recipe_is_complete(cards, system):
    card, facts = cards[system], OF_SYSTEMS[system]
    check_filled(card)
    text = str(card)
    assert "**A recipe, without weights.**" in text
    assert facts["summary"].strip() in text
    for paper in facts["papers"]:
        assert f"{{{paper}," in text
    for name in (*facts["options"], *(f"--{name}" for name in facts.get("training", {}))):
        assert f"`{name}`" in text
    for limit in facts["limits"]:
        assert f"- {limit}\n" in text
    assert f'`decoding="{DocMTConfig.from_system(system).default_decoding}"`' in text
    metadata = yaml.safe_load(text.split("---\n")[1])
    # there is no model to speak of
    assert not {"model-index", "metrics", "model_name", "language"} & set(metadata)
    assert metadata["license"] == "apache-2.0"
    assert ModelCard(text).data.to_dict()["library_name"] == "transformers"
    for part in ("## Results", "## Does it use its context", "## Memory", "was wanted"):
        assert part not in text


@pytest.mark.parametrize("system", SYSTEMS)
def test_options_of_systems_exist(system):
    fields = {field.name for field in dataclasses.fields(DocMTConfig)}
    training = {
        field.name: field.default
        for kind in (ModelArguments, DataArguments, TrainingArguments)
        for field in dataclasses.fields(kind)
    }
    assert set(OF_SYSTEMS[system]["options"]) <= fields
    for name in OF_SYSTEMS[system].get("training", {}):
        assert training[name] is not dataclasses.MISSING


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_commands_of_a_recipe_fit_together(cards, system, monkeypatch):
    monkeypatch.setenv("DOCMT_CORPORA", "corpora")
    (block,) = re.findall(r"```bash\n(.*?)```", str(cards[system]), flags=re.S)
    train, evaluate, card = (shlex.split(line) for line in block.strip().splitlines())
    recipe = find_recipe(system, OF_SYSTEMS[system]["recipe"])
    assert train[:3] == ["python", "-m", "training.train"]
    assert (ROOT / train[3]) == recipe.path
    assert recipe.options()["system"] == system
    arguments = parse_evaluation(evaluate[3:])
    assert arguments.model == recipe.output_dir
    options = parse_arguments(card[3:])
    assert options.results == [arguments.output, f"{recipe.output_dir}/results.json"]
    assert (options.recipe, options.model_dir) == (system, recipe.output_dir)
    assert f'model="{recipe.output_dir}"' in str(cards[system])
    (readme,) = re.findall(r"`(training/configs/\S+README\.md)`", str(cards[system]))
    assert (ROOT / readme).is_file()


@pytest.mark.parametrize("system", SYSTEMS)
def test_numbers_of_papers_are_those_of_the_files_and_none_from_memory(cards, system):
    section = expected_section(system)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section["table"][2:]]
    known, all_of_them = set(), 0
    for data_set in {recipe.data_set for recipe in recipes_by_system()[system]}:
        names = {recipe.name for recipe in recipes_by_system()[system] if recipe.data_set == data_set}
        for entry in Expected.read(data_set).results:
            if entry["system"] in names:
                all_of_them += 1
                key = (entry["measure"], entry["test_set"], f"`{data_set}/{entry['system']}`", str(entry["value"]))
                known.add((*key, entry["status"], entry["source"]))
    assert {(*row[:3], *row[4:]) for row in rows} <= known
    assert len(rows) + section["left_out"] == all_of_them
    assert {row[5] for row in rows} <= {"printed", "stated", "stated-order", "derived"}
    assert "\n".join(section["table"]) in str(cards[system])


def test_the_command_prints_the_card_of_a_recipe(capsys, tmp_path, cards):
    main(["--recipe", "window-attn"])
    assert capsys.readouterr().out == str(cards["window-attn"]).rstrip() + "\n"
    folder = tmp_path / "window-attn"
    main(["--recipe", "window-attn", "--model_dir", str(folder)])
    assert (folder / "README.md").read_text(encoding="utf-8") == str(cards["window-attn"]).rstrip() + "\n"
    assert not (folder / "LICENSE.md").exists()


@pytest.mark.parametrize("arguments", [[], ["--model_dir", "folder"], ["result.json"]])
def test_the_command_asks_for_what_is_missing(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "name " in capsys.readouterr().err


def test_whoever_trains_a_recipe_gets_a_card_with_the_words_of_the_system():
    training = {**copy.deepcopy(TRAINING), "system": "window-attn", "train_files": ["$DOCMT_CORPORA/news/train"]}
    with pytest.raises(ValueError, match="there is no licence for the training file '.DOCMT_CORPORA/news/train'"):
        build_card({"license": "mit"}, LICENCES, [training], model_name="mine")
    facts: dict = {"data": {"news": {"origin": "Newspapers", "licence": "as they say"}}}
    with pytest.raises(ValueError, match="`license` is missing"):
        build_card(facts, LICENCES, [training], model_name="mine")
    facts["license"] = "mit"
    card = build_card(facts, LICENCES, [training], model_name="mine")
    text = str(card)
    check_filled(card)
    assert OF_SYSTEMS["window-attn"]["summary"].strip() in text
    assert "| Newspapers (`$DOCMT_CORPORA/news/train`) | as they say |" in text
    assert "The weights are under `mit`." in text
    assert card.data.to_dict()["license"] == "mit"
    for gone in ("without weights", "```bash", "What papers report", "--init_from"):
        assert gone not in text


def test_a_recipe_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="has no recipe 'news/concat-adj' of the system 'window-attn'"):
        find_recipe("window-attn", "news/concat-adj")


def test_papers_are_those_of_the_readme_and_their_entries_are_whole():
    papers = read_papers()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    used = [paper for facts in OF_SYSTEMS.values() for paper in facts["papers"]]
    for paper in used:
        assert papers[paper]["url"] in readme
    used += [*PAPERS_OF_MEASURES.values(), *PAPERS_OF_SUITES.values(), PAPER_OF_CONTEXT_USE]
    assert set(used) == set(papers)
    text = citation_text(papers)
    entries = re.findall(r"^@(\w+)\{(\S+),\n((?:  \w+ = \{.+\},?\n)+)\}$", text, flags=re.M)
    assert [key for _, key, _ in entries] == [*papers, "docmt"]
    for kind, key, fields in entries:
        names = re.findall(r"^  (\w+) =", fields, flags=re.M)
        needed = {"article": {"journal", "url"}, "inproceedings": {"booktitle", "url"}, "software": {"version"}}[kind]
        assert {"title", "author", *needed} <= set(names), key
        assert fields.count("{") == fields.count("}")
    for paper in papers.values():
        assert all(re.fullmatch(r"[^,]+, [^,]+", author) for author in paper["author"])
        assert re.search(str(paper["year"])[2:], paper["url"]) or "arxiv" in paper["url"]


def test_this_software_is_cited_as_its_file_says():
    facts = load_yaml(ROOT / "CITATION.cff")
    text = citation_text([])
    assert f"title = {{{facts['title']}}}" in text
    assert f"version = {{{facts['version']}}}" in text
    assert f"{{{{{facts['authors'][0]['name']}}}}}" in text


def test_a_paper_that_is_not_in_the_list_is_named():
    with pytest.raises(ValueError, match="has no paper 'nobody-1999'"):
        citation_text(["nobody-1999"])
