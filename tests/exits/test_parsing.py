"""The names of policies that users type: what each one makes, and what is refused with the rule,
the value and the cure."""

import re
from functools import partial

import pytest
from tiny import BLOCKS, TARGET_VOCAB, tiny_model
from walks import POLICIES, model_for

from anydepth.errors import UsageError
from anydepth.exits import flops
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.names import POLICY_FORMS
from anydepth.exits.parsing import parse_policy, require_halting, threshold_family
from anydepth.exits.policies import FixedExit, MultinomialExit, Policy, SequenceExit, UniformExit
from anydepth.exits.thresholds import ThresholdExit

PLAIN, LAST = tiny_model(), tiny_model("model.exits=last")
MODELS = {kind: tiny_model(f"exits.halting={kind}") for kind in ("sequence", "multinomial", "geometric")} | {
    "none": PLAIN,
    "last": LAST,
}


def refused(text: str, model: AdaptiveTransformer, message: str) -> None:
    with pytest.raises(UsageError, match=rf"^{message}$") as caught:
        parse_policy(text, model)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("fixed:3", FixedExit(3, BLOCKS)),
        ("uniform", UniformExit(1, BLOCKS)),
        ("uniform:7", UniformExit(7, BLOCKS)),
        ("uniform:seed=7", UniformExit(7, BLOCKS)),
    ],
)
def test_a_policy_is_parsed_from_its_text_and_from_its_own_name(text: str, policy: Policy) -> None:
    assert parse_policy(text, PLAIN) == policy
    assert parse_policy(f" {text}\n", PLAIN) == policy
    assert parse_policy(policy.name, PLAIN) == policy


@pytest.mark.parametrize("text", POLICIES)
def test_every_policy_has_a_name_that_makes_it_again(text: str) -> None:
    model = model_for(text)
    policy = parse_policy(text, model)
    again = parse_policy(policy.name, model)
    assert type(again) is type(policy)
    assert (again.name, again.blocks) == (policy.name, policy.blocks) == (policy.name, BLOCKS)
    assert policy.name == ("uniform:seed=7" if text == "uniform:7" else text)


@pytest.mark.parametrize(
    ("text", "family", "thresholds"),
    [
        ("confidence:0.9", "confidence", (0.9, 0.9, 0.9)),
        ("confidence:0.9,0.8,0.7", "confidence", (0.9, 0.8, 0.7)),
        ("margin: 0, 1, 0.5", "margin", (0.0, 1.0, 0.5)),
        ("similarity:1e-3", "similarity", (0.001, 0.001, 0.001)),
        ("shortlist:5:0.9", "shortlist:5", (0.9, 0.9, 0.9)),
        ("shortlist::0.9", f"shortlist:{TARGET_VOCAB}", (0.9, 0.9, 0.9)),  # 64, but there are not so many words
        ("geometric", "geometric", (0.5, 0.5, 0.5)),
        ("geometric:", "geometric", (0.5, 0.5, 0.5)),
        ("geometric:0.2,0.3,0.4", "geometric", (0.2, 0.3, 0.4)),
    ],
)
def test_thresholds_are_given_one_by_one_or_once_for_all(text: str, family: str, thresholds: tuple[float, ...]) -> None:
    policy = parse_policy(text, MODELS["geometric"])
    assert isinstance(policy, ThresholdExit)
    assert (policy.family, policy.thresholds, policy.blocks) == (family, thresholds, BLOCKS)


def test_every_policy_tells_the_cost_of_its_own_decisions() -> None:
    expected = {
        "fixed:3": flops.no_decision,
        "uniform": flops.no_decision,
        "sequence": flops.sequence_decision,
        "multinomial": flops.multinomial_decision,
        "geometric": flops.geometric_decision,
        "confidence:0.5": flops.confidence_decision,
        "margin:0.5": flops.confidence_decision,
        "similarity:0.5": flops.similarity_decision,
    }
    for text, cost in expected.items():
        assert parse_policy(text, model_for(text)).cost is cost
    some = parse_policy("confidence:0.5,1,0", model_for("confidence")).cost
    assert isinstance(some, partial) and (some.func, some.keywords) == (flops.confidence_decision, {"deciding": (1,)})


def test_trained_policies_use_the_halting_module_of_the_model() -> None:
    sequence, multinomial = (parse_policy(kind, MODELS[kind]) for kind in ("sequence", "multinomial"))
    assert isinstance(sequence, SequenceExit)
    assert sequence.halting is MODELS["sequence"].halting
    assert isinstance(multinomial, MultinomialExit)
    assert multinomial.halting is MODELS["multinomial"].halting


def test_a_baseline_allows_its_last_exit() -> None:
    assert parse_policy("fixed:4", LAST) == FixedExit(4, 4)


KNOWN = f"known: {re.escape(', '.join(POLICY_FORMS.values()))}"


@pytest.mark.parametrize(
    ("text", "model", "message"),
    [
        ("unifrom:3", PLAIN, rf"there is no policy 'unifrom:3'; did you mean uniform\? {KNOWN}"),
        ("geometrc", PLAIN, rf"there is no policy 'geometrc'; did you mean geometric\? {KNOWN}"),
        ("zzz", PLAIN, rf"there is no policy 'zzz'; {KNOWN}"),
        ("", PLAIN, rf"the policy '' is empty; {KNOWN.replace('known:', 'name one of')}, or leave it out$"),
        ("  ", PLAIN, r"the policy '  ' is empty; name one of fixed:N, .*, or leave it out"),
        ("fixed:9", PLAIN, r"fixed:9: this model has exits 1 to 4"),
        ("fixed:0", PLAIN, r"fixed:0: this model has exits 1 to 4"),
        ("fixed:-1", PLAIN, r"fixed:-1: this model has exits 1 to 4"),
        ("fixed:2", LAST, r"fixed:2: this model has exit 4 only"),
        ("fixed:two", PLAIN, r"fixed:two: a fixed exit is a block number, as in fixed:4"),
        ("fixed", PLAIN, r"fixed: a fixed exit is a block number, as in fixed:4"),
        ("uniform:x", PLAIN, r"uniform:x: the seed is a whole number from 0 on, as in uniform:1"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(text: str, model: AdaptiveTransformer, message: str) -> None:
    refused(text, model, message)


@pytest.mark.parametrize("text", ["uniform", *(text for text in POLICIES if not text.startswith("fixed:"))])
def test_a_baseline_with_one_exit_has_nothing_to_choose(text: str) -> None:
    needs = r"choosing exits needs one after every block, but this model has exit 4 only; use fixed:4"
    refused(text, LAST, f"{text}: {needs}")


@pytest.mark.parametrize("values", ["0.9,0.8", "0.9,0.8,0.7,0.6"])
@pytest.mark.parametrize("family", ["geometric", "confidence", "margin", "similarity", "shortlist:5"])
def test_a_wrong_number_of_thresholds_is_refused_with_the_right_one(family: str, values: str) -> None:
    count = values.count(",") + 1
    advice = "give 1 for all blocks, or 3, one for each but the last"
    refused(
        f"{family}:{values}",
        MODELS["geometric"],
        rf"{family}:{values}: {count} thresholds for a model of 4 blocks; {advice}",
    )


@pytest.mark.parametrize("value", ["-0.1", "1.5", "nan", "inf", "-inf"])
@pytest.mark.parametrize("family", ["geometric", "confidence", "margin", "similarity", "shortlist:5"])
def test_a_threshold_outside_0_and_1_is_refused(family: str, value: str) -> None:
    for text in (f"{family}:{value}", f"{family}:0.5,0.5,{value}"):
        refused(
            text,
            MODELS["geometric"],
            rf"{text}: the threshold {value} is not between 0 \(always stop\) and 1 \(never stop\)",
        )


@pytest.mark.parametrize("values", ["often", "0.5;0.6", "0.5,", "0.5,,0.5", "0,5 0,6"])
@pytest.mark.parametrize("family", ["geometric", "confidence", "margin", "similarity", "shortlist:5"])
def test_thresholds_that_are_no_numbers_are_refused(family: str, values: str) -> None:
    rule = r"thresholds are numbers from 0 to 1 with commas between, as in 0\.9,0\.8"
    refused(f"{family}:{values}", MODELS["geometric"], rf"{family}:{values}: {rule}")


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("confidence", "confidence:0.9"),
        ("margin:", "margin:0.9"),
        ("similarity", "similarity:0.9"),
        ("shortlist", "shortlist:K:0.9"),
        ("shortlist:5", "shortlist:K:0.9"),
        ("shortlist:5:", "shortlist:K:0.9"),
    ],
)
def test_a_policy_without_the_thresholds_it_needs_is_refused_with_an_example(text: str, example: str) -> None:
    name = text.partition(":")[0]
    refused(text, PLAIN, rf"{text}: {name} needs thresholds, as in {example}; `anydepth tune` finds them")


@pytest.mark.parametrize("argument", ["0:0.5", "-3:0.5", "x:0.5", "0.9", "2.5:0.9", "0"])
def test_a_shortlist_that_is_no_number_of_words_is_refused(argument: str) -> None:
    rule = r"the shortlist is a number of words, then come thresholds, as in shortlist:64:0\.9"
    refused(f"shortlist:{argument}", PLAIN, rf"shortlist:{argument}: {rule}")


def test_the_family_of_a_policy_is_its_text_without_thresholds() -> None:
    assert threshold_family("confidence", "0.9,0.8") == ("confidence", "0.9,0.8")
    assert threshold_family("shortlist", "5:0.9") == ("shortlist:5", "0.9")
    assert threshold_family("shortlist", "5") == ("shortlist:5", "")
    assert threshold_family("shortlist", "") == ("shortlist:64", "")


@pytest.mark.parametrize("kind", ["sequence", "multinomial"])
def test_thresholds_for_a_policy_that_has_none_are_refused(kind: str) -> None:
    refused(
        f"{kind}:0.5",
        MODELS[kind],
        rf"{kind}:0.5: {kind} takes the most probable exit and has no thresholds; write {kind}",
    )


@pytest.mark.parametrize("text", ["sequence", "multinomial", "geometric", "geometric:0.5"])
@pytest.mark.parametrize("has", ["none", "sequence", "multinomial", "geometric"])
def test_a_policy_that_the_run_was_not_trained_for_is_refused_with_what_it_has_and_how_to_train_the_other(
    text: str, has: str
) -> None:
    kind = text.partition(":")[0]
    if kind == has:
        assert parse_policy(text, MODELS[has]).blocks == BLOCKS
        require_halting(text, kind, MODELS[has])
        return
    own = "it has none" if has == "none" else f"it has the {has} module"
    cure = rf"train one with `anydepth train --from RUN --to NEW --set exits.halting={kind}`"
    refused(text, MODELS[has], rf"{text}: this run was not trained with the {kind} halting module \({own}\); {cure}")


def test_the_way_from_a_module_with_units_to_another_kind_leaves_the_units_out() -> None:
    model = tiny_model("exits.halting=geometric", "exits.halting_units=3")
    refused(
        "multinomial",
        model,
        r"multinomial: .*`anydepth train .* --set exits.halting=multinomial --set exits.halting_units=0`$",
    )


@pytest.mark.parametrize(
    "text", ["fixed:2", "uniform", "confidence:0.9", "margin:0.9", "similarity:0.9", "shortlist:5:0.9"]
)
@pytest.mark.parametrize("has", ["none", "sequence", "multinomial", "geometric"])
def test_a_policy_that_needs_no_training_fits_every_model(text: str, has: str) -> None:
    assert parse_policy(text, MODELS[has]).blocks == BLOCKS
