"""Every published objective as a composition: one function each, short as the paper's own summary.

`make("ips_grpo(alpha=0.5, floor=0.2)")` builds one from text, `names()` lists them, `describe(name)` explains one.
A new objective is a new function in a module of this folder and a new row in `CATALOG`.

Divergence from a reference: if a paper adds it to its algorithm, it is off by default, so that algorithms are compared
without it, and the docstring states the paper's weight. If it defines the objective (`mara`, `dph_rl`, `f_divergence`,
`flowrl`, `reinvent`, `degrpo`, `hgpo`, the preference losses), it is on.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable

from ipsrl.checking import foreign_code, specifications
from ipsrl.checking.arguments import checked
from ipsrl.objectives.catalog import (
    balance,
    balanced_clipping,
    baselines,
    clipping,
    covariance,
    diversity,
    entropy,
    expected_return,
    forks,
    imitation,
    implicit_rewards,
    inverse_probability,
    listwise,
    noisy_verifiers,
    plans,
    preferences,
    prompt_weights,
    rarity,
    refinements,
    regularised,
    risk_seeking,
    sets,
    signs,
    strata,
    token_probability,
    trust_region,
    unlikely_answers,
    vector_rewards,
    whole_batch,
)
from ipsrl.objectives.corrections import Correction
from ipsrl.objectives.objective import Objective

CATALOG: dict[str, Callable[..., Objective]] = {
    "reinforce": expected_return.reinforce,
    "grpo": expected_return.grpo,
    "dr_grpo": expected_return.dr_grpo,
    "rloo": expected_return.rloo,
    "reinforce_plus_plus": whole_batch.reinforce_plus_plus,
    "reinforce_plus_plus_baseline": whole_batch.reinforce_plus_plus_baseline,
    "dapo": expected_return.dapo,
    "lite_ppo": whole_batch.lite_ppo,
    "opo": baselines.opo,
    "gpg": whole_batch.gpg,
    "remax": baselines.remax,
    "spo": baselines.spo,
    "gfpo": baselines.gfpo,
    "gdpo": vector_rewards.gdpo,
    "gspo": trust_region.gspo,
    "gspo_token": trust_region.gspo_token,
    "luspo": trust_region.luspo,
    "sapo": trust_region.sapo,
    "vespo": trust_region.vespo,
    "gmpo": trust_region.gmpo,
    "kimi_mirror_descent": trust_region.kimi_mirror_descent,
    "dcpo": trust_region.dcpo,
    "ar_lopti": token_probability.ar_lopti,
    "lp_reg": token_probability.lp_reg,
    "gppo": clipping.gppo,
    "ce_gppo": clipping.ce_gppo,
    "cispo": clipping.cispo,
    "aspo": clipping.aspo,
    "bapo": balanced_clipping.bapo,
    "dppo": clipping.dppo,
    "clip_cov": covariance.clip_cov,
    "kl_cov": covariance.kl_cov,
    "forking_tokens": forks.forking_tokens,
    "simko": forks.simko,
    "aer": entropy.aer,
    "skywork_entropy": entropy.skywork_entropy,
    "entrocraft": entropy.entrocraft,
    "w_reinforce": signs.w_reinforce,
    "ngrpo": signs.ngrpo,
    "topr": signs.topr,
    "qae": signs.qae,
    "ips_reinforce": inverse_probability.ips_reinforce,
    "ips_grpo": inverse_probability.ips_grpo,
    "ips_dr_grpo": inverse_probability.ips_dr_grpo,
    "progrpo": token_probability.progrpo,
    "stratified_grpo": strata.stratified_grpo,
    "dagrpo": refinements.dagrpo,
    "critique_grpo": refinements.critique_grpo,
    "mode_replay": refinements.mode_replay,
    "hicra": plans.hicra,
    "degrpo": plans.degrpo,
    "hgpo": strata.hgpo,
    "trajectory_balance": balance.trajectory_balance,
    "vargrad": balance.vargrad,
    "detailed_balance": balance.detailed_balance,
    "subtrajectory_balance": balance.subtrajectory_balance,
    "flowrl": balance.flowrl,
    "reinvent": implicit_rewards.reinvent,
    "gvpo": implicit_rewards.gvpo,
    "a2po": implicit_rewards.a2po,
    "rover": implicit_rewards.rover,
    "supervised": imitation.supervised,
    "dpo": preferences.dpo,
    "f_dpo": preferences.f_dpo,
    "rpo": preferences.rpo,
    "ipo": preferences.ipo,
    "darling": diversity.darling,
    "f_grpo": prompt_weights.f_grpo,
    "gapo": diversity.gapo,
    "pass_at_k": sets.pass_at_k,
    "unlikeliness": unlikely_answers.unlikeliness,
    "dra_grpo": diversity.dra_grpo,
    "rep_exp": diversity.rep_exp,
    "polychromic": sets.polychromic,
    "ucpo": unlikely_answers.ucpo,
    "maxrl": prompt_weights.maxrl,
    "garl": prompt_weights.garl,
    "rs_grpo": risk_seeking.rs_grpo,
    "top_one": sets.top_one,
    "pkpo": sets.pkpo,
    "vector_po": sets.vector_po,
    "uniqueness_aware": rarity.uniqueness_aware,
    "answer_entropy": rarity.answer_entropy,
    "outcome_exploration": rarity.outcome_exploration,
    "differential_smoothing": unlikely_answers.differential_smoothing,
    "setpo": rarity.setpo,
    "dmpo": listwise.dmpo,
    "lpo": listwise.lpo,
    "placebo": diversity.placebo,
    "mara": regularised.mara,
    "dph_rl": regularised.dph_rl,
    "tsallis": regularised.tsallis,
    "f_divergence": regularised.f_divergence,
    "alpha_dpg": regularised.alpha_dpg,
    "backward_correction": noisy_verifiers.backward_correction,
    "forward_correction": noisy_verifiers.forward_correction,
}


@checked
def make(text: str) -> Objective:
    """Builds the objective from a text such as `"ips_grpo(alpha=0.5, floor=0.2)"`.

    Besides the arguments of its function every row takes `correction`, for answers that another program sampled, as in
    `"grpo(correction=truncated(2.0))"`; see `ipsrl.objectives.corrections`.

    Raises:
      ValueError: unknown name or argument (the message suggests known names), or a value of the wrong type.
    """
    function, arguments = specifications.read(text, CATALOG, "objective", {"correction": Correction | None})
    correction = arguments.pop("correction", None)
    return dataclasses.replace(foreign_code.call(function, arguments, Objective), correction=correction)


@checked
def make_each(texts: Iterable[str]) -> dict[str, Objective]:
    """Text -> the objective that it names, in the order given.

    Raises:
      ValueError: as `make`, or two texts describe the same objective.
    """
    made: dict[Objective, str] = {}
    for text in texts:
        if (objective := make(text)) in made:
            raise ValueError(f"{text} and {made[objective]} are the same objective: name each once")
        made[objective] = text
    return {text: objective for objective, text in made.items()}


def names() -> tuple[str, ...]:
    """Names of all objectives, in the catalog's order."""
    return tuple(CATALOG)


@checked
def describe(name: str) -> str:
    """Arguments with defaults, formula and paper of one objective."""
    if name not in CATALOG and (alone := name.partition("(")[0]) in CATALOG:
        raise ValueError(f"{specifications.shortened(name)} has arguments: describe takes a name alone, {alone!r}")
    if name not in CATALOG:
        raise ValueError(
            f"unknown objective {specifications.shortened(name)}; {specifications.did_you_mean(name, CATALOG)}"
        )
    parameters = inspect.signature(CATALOG[name]).parameters.values()
    arguments = ", ".join(f"{parameter.name}={parameter.default}" for parameter in parameters)
    return f"{name}({arguments})\n\n{inspect.getdoc(CATALOG[name])}"
