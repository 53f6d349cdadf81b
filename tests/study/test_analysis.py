"""Studies and their answers: the paper's figures, simulated participants, tampering, and the command as a user types it."""

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from cfgen.commands.study import main
from cfgen.errors import UserError
from cfgen.study.analysis import analyse
from cfgen.study.answers import KEYS
from cfgen.study.design import Study, canonical
from cfgen.study.making import new_study
from cfgen.study.simulation import simulated_lines
from tests.refusals import refusal
from tests.study.conftest import DO


def sat(study, person, score, ms=2000):
    """The lines of a participant with so many right answers to main questions, and all others right."""
    lines = []
    for number, (trial, flipped) in enumerate(study.sheet_of(person)):
        right = True
        if trial.role == "main":
            right, score = score > 0, score - 1
        side = "left" if trial.is_right(flipped, "left") == right else "right"
        lines.append(
            {"study": study.id, "participant": person, "number": number, "trial": trial.id, "answer": side, "ms": ms}
        )
    return lines


def written(folder, lines, name="sent.jsonl"):
    path = folder / "answers" / name
    path.write_text("".join(line if isinstance(line, str) else canonical(line) for line in lines))
    return path


def paper_scores():
    """66 whole numbers with mean 5.15 and standard deviation 1.64: their sum is 340, the sum of their squares 1926."""
    counts = {1: 1, 2: 3, 3: 7, 4: 12, 5: 16, 6: 13, 7: 10, 8: 3, 9: 1}
    scores = [score for score, count in counts.items() for _ in range(count)]
    random = np.random.default_rng(0)
    while (len(scores), sum(scores), sum(s * s for s in scores)) != (66, 340, 1926):
        scores = random.binomial(10, 340 / 660, 66).tolist()
    return scores


def test_the_papers_figures(folder, made, capsys):
    scores = paper_scores()
    written(folder, [line for k, score in enumerate(scores) for line in sat(made.study, f"{k * 7919:016x}", score)])
    (result,) = analyse(folder).results
    assert (round(result.mean, 2), round(result.deviation, 2), len(result.scores)) == (5.15, 1.64, 66)
    assert result.correct.share == pytest.approx(340 / 660)
    assert result.exact_p > 0.4
    assert result.clustered_p > 0.4
    assert result.equivalence_p < 1e-3
    assert result.verdict == "as good as guessing, within the margin"
    assert main(["analyse", str(folder)]) == 0
    assert "5.15 of 10 right, s.d. 1.64, 66 responses" in capsys.readouterr().out


def test_simulated_participants_are_found_for_what_they_are(folder):
    perfect = analyse(folder, simulate={"perfect": 20}).results[0]
    assert (perfect.mean, perfect.deviation, perfect.verdict) == (10, 0, "better than guessing")
    assert perfect.clustered_p < 1e-6
    mixed = analyse(folder, simulate={"guessing": 60, "careless": 40}, seed=2)
    guessers = {row["participant"] for row in mixed.participants[:60]}
    counted = {row["participant"] for row in mixed.participants if row["counts"]}
    assert guessers <= counted
    assert len(counted - guessers) < 14  # of 40; an eighth gets through both rules
    assert mixed.excluded.keys() == {"catch trials", "too fast"}
    assert sum(mixed.excluded.values()) == 100 - len(counted)


def test_by_intervention_the_counts_add_up(folder):
    found = analyse(folder, simulate={"guessing": 30})
    assert sum(row["asked"] for row in found.interventions) == 300
    assert sum(row["right"] for row in found.interventions) == found.results[0].correct.right
    assert {row["do"] for row in found.interventions} == {"Bangs=1", "Pale_Skin=0"}


def test_lines_that_came_twice_were_changed_or_cut(folder, made):
    study = made.study
    people = [f"{k:016x}" for k in range(1, 8)]
    lines = {person: sat(study, person, 5) for person in people}
    lines[people[1]] *= 2  # a file that was sent twice
    other = {"left": "right", "right": "left"}[lines[people[2]][4]["answer"]]
    lines[people[2]].append(lines[people[2]][4] | {"answer": other})
    lines[people[3]][5] = lines[people[3]][5] | {"trial": lines[people[3]][6]["trial"]}
    lines[people[4]][5] = lines[people[4]][5] | {"name": "Ann"}
    lines[people[5]] = [line | {"ms": 20} for line in lines[people[5]]]
    texts = [canonical(line) for person in people for line in lines[person]]
    texts[-1] = texts[-1][:30]  # of the seventh, cut off
    written(folder, texts)
    found = analyse(folder)
    assert {row["participant"]: row["excluded"] for row in found.participants} == {
        people[0]: "",
        people[1]: "",
        people[2]: "two different answers to one question",
        people[3]: "answers that do not fit the study's plan",
        people[4]: "answers that do not fit the study's plan",
        people[5]: "too fast",
        people[6]: "not finished",
    }
    assert found.duplicates == len(study.sheet_of(people[1]))
    assert found.unreadable == [f"sent.jsonl, line {len(texts)}"]


def test_a_study_that_was_edited_is_refused(folder, made, capsys):
    written(folder, sat(made.study, "00" * 8, 5))
    path = folder / "study.json"
    stored = json.loads(path.read_text())
    stored["rules"]["margin"] = 0.2
    path.write_text(json.dumps(stored))
    refusal(main, ["analyse", folder], capsys, "study")
    # with a hash that fits, too: the answers belong to the first version
    edited = dataclasses.replace(made.study, rules=dataclasses.replace(made.study.rules, margin=0.2))
    path.write_text(json.dumps(edited.to_dict()))
    refusal(main, ["analyse", folder], capsys, "answers")
    path.write_text(json.dumps(made.study.to_dict()))
    assert main(["analyse", str(folder)]) == 0
    picture = next((folder / "page" / "images").iterdir())
    picture.write_bytes(picture.read_bytes() + b" ")
    refusal(main, ["analyse", folder], capsys, "study")


@pytest.mark.parametrize("damage", ["[]", "{}", '{"hash": "x", "trials": 3}', "nothing"])
def test_what_is_no_study_is_refused(folder, damage, capsys):
    (folder / "study.json").write_text(damage)
    refusal(main, ["analyse", folder], capsys)


def test_the_same_seed_makes_the_same_study(painter, made):
    again, other = (new_study(painter, DO, seed=seed, mail="study@example.org") for seed in (3, 4))
    assert again.study.hash == made.study.hash
    assert again.pictures == made.pictures
    assert other.study.hash != made.study.hash


def test_sheets(made):
    """Everybody gets ten of the pairs, each image once, no pair always on one side, each pair about equally often."""
    study = made.study
    main_trials = {trial.id for trial in study.trials if trial.role == "main"}
    assert len(main_trials) == 40
    sides, shown = [], dict.fromkeys(main_trials, 0)
    for sheet in study.sheets:
        trials = [study.trials[code // 2] for code in sheet]
        assert [trial.role for trial in trials[:2]] == ["practice"] * 2
        assert sorted(trial.role for trial in trials[2:]) == ["catch"] * 2 + ["main"] * 10
        assert len({image for trial in trials for image in trial.images}) == 2 * len(trials)
        for trial, code in zip(trials, sheet, strict=True):
            sides.append(trial.is_right(code % 2, "left"))
            if trial.role == "main":
                shown[trial.id] += 1
    assert np.mean(sides) == pytest.approx(0.5, abs=0.03)
    assert min(shown.values()) > 80  # 125 expected
    assert max(shown.values()) < 170


def test_the_page_does_not_tell_the_answers(folder, made):
    given = made.study.for_page()
    known = {trial.id: trial for trial in made.study.trials}
    assert all(("right" in trial) == (known[trial["id"]].role == "practice") for trial in given["trials"])
    assert "seed" not in given
    text = (folder / "page" / "data.js").read_text()
    assert "Bangs" not in text
    assert "catch" not in text
    # which of two names comes first tells nothing
    firsts = [trial.right for trial in made.study.trials if trial.role == "main"]
    assert 8 <= sum(firsts) <= 32


def test_the_right_picture_is_the_counterfactual(folder, made):
    """Bangs=1 brightens a stripe, Pale_Skin=0 darkens one; a catch trial has both black and white squares."""
    for trial in made.study.trials:
        pictures = [np.asarray(Image.open(folder / "page" / "images" / name), float) for name in trial.images]
        change = (pictures[trial.right] - pictures[1 - trial.right]).sum()
        match trial.do:
            case "Bangs=1":
                assert change > 0
            case "Pale_Skin=0":
                assert change < 0
            case "":
                assert {0.0, 255.0} <= set(pictures[trial.right].ravel())


def test_all_questions(painter, tmp_path):
    made = new_study(painter, DO, questions=["same", "edited", "shows"], subject="person", each=6, count=12, catch=3)
    study, folder = made.study, made.save(tmp_path / "all")
    texts = {trial.question: trial.text for trial in study.trials if trial.role == "main" and trial.do == "Pale_Skin=0"}
    assert texts == {
        "same": "Do both pictures show the same person?",
        "edited": "Which picture was edited?",
        "shows": "Which picture shows no pale skin?",
    }
    found = analyse(folder, simulate={"perfect": 12})
    assert [result.question for result in found.results] == ["edited", "shows", "same"]
    same = found.results[2]
    assert (same.called_same["one"].share, same.called_same["two"].share) == (1, 0)
    kinds = [t.right for t in study.trials if t.question == "same" and t.role == "main"]
    assert (len(kinds), sum(kinds)) == (12, 6)
    assert len(found.to_frame()) == 3
    assert json.loads((found.save(tmp_path / "out") / "analysis.json").read_text())["participants"]["all"] == 12


def test_answers_hold_nothing_personal(made):
    for _, text in simulated_lines(made.study, {"guessing": 1}):
        assert json.loads(text).keys() == KEYS == {"study", "participant", "number", "trial", "answer", "ms"}


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("question", {"questions": ["edit"]}),
        ("question", {"questions": []}),
        ("subject", {"questions": ["same"]}),
        ("subject", {"subject": "person"}),
        ("each", {"each": 200}),
        ("count", {"count": 5}),
        ("count", {"count": 200}),
        ("margin", {"margin": 0.5}),
        ("catch_right", {"catch_right": 3}),
        ("mail", {"mail": "a@b?cc=c"}),
        ("do", {"do": [{"Bangz": 1}]}),
        ("do", {"do": []}),
    ],
)
def test_bad_wishes_are_refused(painter, argument, options):
    with pytest.raises(UserError) as refused:
        new_study(painter, options.pop("do", DO), split="examples", **options)
    assert refused.value.argument == argument


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.txt"
    mine.write_text("I agree.\n")
    words = [
        "new",
        "morphomnist-hvae",
        "--do",
        "thickness=5",
        "--out",
        "studies/digits",
        "--each",
        "4",
        "--consent",
        str(mine),
    ]
    assert main(words) == 0
    study = Study.read("studies/digits")
    assert study.hash in capsys.readouterr().out
    assert (study.consent, study.each, study.model) == ("I agree.", 4, "morphomnist-hvae")
    refusal(main, words, capsys, "out")
    refusal(main, ["analyse", "studies/digits"], capsys, "answers")
    refusal(main, ["analyse", "studies/digits", "nowhere"], capsys, "answers")
    refusal(main, ["analyse", "studies/digits", "--simulate", "guesing"], capsys, "simulate")
    refusal(main, ["analyse", "nowhere"], capsys, "study")
    refusal(main, ["analyze", "studies/digits"], capsys, "task")
    assert main(["analyse", "studies/digits", "--power", "20"]) == 0
    assert "power with 20 participants" in capsys.readouterr().out
    assert main(["analyse", "studies/digits", "--simulate", "guessing=20,careless=5", "--out", "found"]) == 0
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "analysis.json", "interventions.csv", "participants.csv", "results.csv", "scores.png"
    }  # fmt: skip
    assert "SIMULATED: 20 guessing, 5 careless" in capsys.readouterr().out
