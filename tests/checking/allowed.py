"""Types and ranges of every checked argument and field, written beside the code and not read from it.

So `test_refusals.py` sees a lost range, a moved bound, a wider annotation, a further word, and a function that is no
longer `@checked`. A name stands for all arguments, or all fields, of that name; `function.name`, `Class.name` and
`study.name` stand for one that differs. With `?`, None is allowed as well.

The range of a tuple is that of its items; `rising` ones increase, and `seeds` differ, of which `seeds 2` are two or
more. A `name` is a text that must be known, and `one of` lists all texts that there are; an `object` is one of a class.
Of `anything` (arrays of dataclasses, parameters, a class that is declared later) functions and classes take care.
A range that depends on other fields is the one at their defaults.
"""

CHECKED = """
    AdditionModes.modes Decoding.read Field.__call__ GraphSearch.thoughts ListedTask.parse_text LogitField.jacobians
    Objective.check PlanAndExecute.probabilities Questions.verify_texts Rollouts.of RunFolder.open
    SharedPrompts.__call__ StoredGroups.of StoredGroups.preferences StoredGroups.read Trainer.init _make_run
    advantage_weighted_frequencies answer_measures beside_another build case_of check collision_diversity
    count_vectors count_weights critical_alpha describe different_pairs distinct_outcomes effective_outcomes
    effective_outcomes_of_distribution entropy_of_distribution estimated_update every_trajectory exact_coverage
    expected_training expected_update expected_weight expected_weight_slope find flow_velocity follow foretold
    forward_kl frequencies growth ideal_recovery_time ideal_restoring_rate independent_ceiling integrate
    largest_outcome_share largest_surviving_step listed_history load load majority_vote make make make
    make_batch_filters make_each make_mesh make_monitors make_optimizer make_run make_runs make_tools
    mean_covered_at_k mean_field mean_over_seeds mean_pass_at_k measure_answers measures mode_bench nearest_rest_point
    outcome_frequency parse_rate pass_at_k prior_parameters proportional_reward rank_correlation ranked_shares read
    read_grid read_mesh recovery recovery_coefficient recovery_time require rest_point rest_points restoring_rate
    reverse_kl sample_count select share_of_runs shared_ranks smallest_group split stationary_distribution survives
    tie_collapse_time total_l1 total_variation train train train train_ensemble train_vmapped uniqueness validity
    verdict weaker_at_rest with_argument without_one_sample write_report
"""
"""Functions and methods that are `@checked`; a name that several have stands as often."""

ARGUMENTS = {
    "anything": "frozen given initial_parameters optional value",
    "array": """
        admissible admissible_size correct growth.distributions entropy first happened log_probs logits
        parse_rate.outcome_id uniqueness.outcome_id recovery.outcome_id measure_answers.outcome_id
        mean_covered_at_k.outcome_id frequencies.outcome_id case_of.path probability nearest_rest_point.probs
        rest_point.probs mean_field.probs majority_vote.probs answer_measures.probs
        StoredGroups.preferences.prompt_index queries foretold.reward rewards right second times tokens valid values
        velocity weights
    """,
    "array or list": "distributions prompt_index",
    "array or whole": "samples",
    "array?": "lengths",
    "bool": "resume skip_damaged walks",
    "device array": """
        sample_count.group_size key log_ratio expected_update.logits estimated_update.logits every_trajectory.logits
        outcome_id probs target train_ensemble.seeds uniform
    """,
    "device array or object": "expected_update.rewards estimated_update.rewards",
    "device array?": "learning_rates reference",
    "dict": "catalog config",
    "function": "find integrate.velocity record",
    "function?": "evaluate",
    "iterable": "rows make_each.texts",
    "list": """
        cells expected_training.distributions train_vmapped.folders history intervals ks requests
        expected_training.rewards seeds train_vmapped.settings texts trackers tries
    """,
    "number": """
        alpha end epsilon floor learning_rate level pseudo_count reward reward_ratio start step_size temperature
        threshold time
    """,
    "number?": "max_gradient_norm right_above timeout",
    "object": """
        available connection environment field folder objective outcomes policy pool settings sizes
        expected_training.steps trainer trajectories
    """,
    "object?": """
        expected_update.environment estimated_update.environment mesh off_policy train.reward Trainer.init.reward
        train_ensemble.reward source steps warnings
    """,
    "pair": """
        weaker_at_rest.rewards recovery_time.rewards recovery_coefficient.rewards ideal_recovery_time.rewards
        advantage_weighted_frequencies.rewards largest_surviving_step.rewards
    """,
    "path": "folders path root",
    "path?": "out parquet study",
    "text": "advice experiment kind modules name preset sql text what",
    "text?": "label title",
    "tuple?": "objective_state",
    "whole": """
        answers foretold.first group_size k mode_bench.level largest needed num_keys num_outcomes pairs parts prompt
        prompts_per_step record_every repeats seed train.steps top_tokens updates
    """,
    "whole?": "block decay_steps",
    "one of": """
        (graph_coloring|factors): domain; (independent|with_history): protocol; (training|held_out): split;
        (no baseline|group mean|group mean and std): rule
    """,
}
"""Kind -> arguments of those functions."""

FIELDS = {
    "anything": "frozen lengths log_probs outcome_id own prompt_index StoredGroups.rewards StoredGroups.tokens",
    "bool": """
        async_rollouts at_random by_amides by_path by_turn centred cosine_decay export fixed graded grounded
        hierarchy leave_one_out normalise_heads per_token Likelihood.prompts released_weight renaming show
        standardise thinking tie_embeddings truncate unbiased use_all verifiable
    """,
    "dict": "flags",
    "function": "aggregation encode MLP.features",
    "function?": "first",
    "name": """
        LanguageModelFlags.decoding document warm_start.dtype compare.environment evaluation_data filters held_out
        molecules.identity mesh monitors group_size_and_floor.objectives warm_start.remat molecules.reward
        LanguageModelFlags.stop_strings group_size_and_floor.task inside_trl.task warm_start.task text
        LanguageModelFlags.tools
    """,
    "names": """
        arms dialogue_users.bonuses critics divergences domains keepers kinds levels objectives only priors regimes
        searches skills spellings surrogates tasks
    """,
    "number": """
        (-inf,inf): EntropyBonus.coefficient constant delta far LogReward.floor near PairwiseLikelihood.alpha
        ReferenceDivergence.alpha beta_fast beta_slow high_frequency_factor log_ratio lora_alpha
        low_frequency_factor zipf_exponent; [-700,700]: initial_log_ratio; [-100,100]: skew; (-1,inf): pseudo_count;
        [0,0.02]: AdaptiveEntropyBonus.coefficient; [0,0.2]: low_end; [0,0.7]: low_start; [0,0.85]:
        DifficultyFilter.lowest; [0,0.9]: BalancedClip.low_start; [0,0.999]: discount held; (0,1):
        FallingOutcomes.by edge_probability kappa r_squared LowProbabilityRegulariser.rho spent threshold; (0,1]:
        ShuffledStrata.alpha inference_routing.budget SubTrajectoryBalance.decay fraction gain ReturnToGo.gamma kept
        low low_fraction mastered_at of_highest p_min quantile rate rho top_p; [0,1): FilteredTarget.alpha decay
        dropout effective_share failure false_negative_rate false_positive_rate survival_map.floor gamma min_p;
        [0,1]: admissible_share StratifiedNorm.alpha InverseClusterSize.alpha ProbabilityWeight.alpha
        Unlikeliness.beta EntropyFloor.coefficient dead_first early exploration floor least RewardTiltBalance.low
        overlap prior_share q TopCredit.quantile right_execution right_plans right_short right_thinking
        TopCredit.spread UniformCorrect.tau ModeMistakes.thinking; [0,5): TruncatedRatio.floor lowest; [0,8]:
        highest_alpha lowest_alpha; [0,10]: transfer; [0,16]: favour; [0,30]: sharpness; [0,1e15]: base_reward
        edge_reward peak_reward; (0,inf): adam_epsilon adam_rate LoRA.alpha alpha_max below beta TruncatedRatio.cap
        coefficient SequenceMask.delta displacement eta exact_rate exponent heavier high high_step inner
        learning_rate log_ratio_cap ClippedGeometricMean.low ProbabilityClip.low low_step max_gradient_norm
        SoftGate.negative noise SoftGate.positive prior prior_rate TsallisEntropy.q rate_scale ratio_limit
        collapse_time.reward ridge rms_norm_epsilon score seconds sft_rate sigma size spread std EntropyFloor.step
        step_size target AdaptiveEntropyBonus.tau temperature DivergenceMask.threshold trade_off; [0,inf): above
        alpha ModeReplay.beta OutcomeEntropy.beta EllipticalBonus.beta TsallisEntropy.beta ReferenceDivergence.beta
        GroupMatching.coefficient MasteredDivergence.coefficient distillation error FocalWeight.gamma gap
        RewardTiltBalance.high imitation kl Masked.low margin negative negative_scale positive positive_scale
        ranking group_size_or_sampling.spread strength tau weight weight_decay; [0.001,1000]:
        TrainingFlags.temperature TrainSettings.temperature; [0.01,8]: recovery_time.alpha; [0.1,inf): high_end;
        [0.15,1]: DifficultyFilter.highest; (0.5,1): collapse_time.threshold; [0.6,1): BalancedClip.low_end;
        [0.6,inf): high_start; (1,3]: BalancedClip.high_start; (1,inf): bound highest ProbabilityClip.limit theta;
        [1,inf): cap factor; [1.2,inf): BalancedClip.high_end
    """,
    "number?": """
        (-inf,inf): at_most ModeAnchor.threshold virtual attention_factor; (0,1]: ShapedOffPolicy.low
        ReasoningGym.threshold; (0,inf): attention_soft_cap ShapedOffPolicy.gamma ShapedOffPolicy.high
        CappedPart.limit logit_soft_cap TrainSettings.max_gradient_norm query_pre_attention_scalar; [0,inf):
        right_above TokenPenalty.window; (1,inf): dual_clip; [1,inf): ratio_cap
    """,
    "numbers": """
        compare.learning_rates phase_portraits.reference rewards start recovery_time.starts; [-1e15,1e15]:
        Field.rewards; [0,0.5]: errors; [0,0.999]: discounts; [0,1]: shares slips worth; (0,inf): game_widths
        learning_rates; [0,inf): floors
    """,
    "numbers rising": """
        [-1,1]: youdens; [0,1000]: smoothings; [1e-09,1000]: inference_routing.learning_rates; [1e-06,0.999]:
        pass_rates; [1e-06,100]: kl_coefficient.betas; [0.001,1]: two_techniques.biases; [0.01,0.99]: accuracies
        hacks; [0.01,2]: limits; [0.01,100]: thought_switching.alphas betas trained_betas; [1,100]:
        thought_switching.betas; [1,1000000]: ratios
    """,
    "numbers or rows?": "initial_logits",
    "numbers?": "reference; [0,inf): weights",
    "object": """
        _centres advantages LinearArms.arms batching clip decoding environment objective penalties policy prompts
        reward reward_shaping reweighting rotary settings surrogate task tools verifier vocabulary world wrappers
    """,
    "object?": """
        scaling correction critic Field.environment Wrapper.inner lora off_policy penalty shown refine sliding
        Trainer.source Field.steps
    """,
    "one of": """
        (all|correct|permuted): shifted; (all|lowest|question): prompt_part; (answer|behaviour):
        SearchQuestions.outcome; (answer|lookups|behaviour): outcome; (answer|token): MirrorDescent.of;
        (any_correct|mixed): gate; (basic|extended|full): operators; (batch|ucb|ucb_mean|ucb_con): bonus;
        (behaviour|reference): anchor; (binary_tv|binary_kl|top_tv|top_kl): DivergenceMask.divergence;
        (canonical|scaffold|scaffold_class): identity; (eased|kept|sharpened): failures; (entropy|gini):
        OutcomeEntropy.form; (exact|mention): reading; (first|others): value; (float32|bfloat16): dtype;
        (float32|bfloat16|int8|int4|nf4): LoRA.frozen frozen_dtype; (forward_kl|jensen_shannon):
        MasteredDivergence.divergence; (forward_kl|reverse_kl): ListwiseMatching.divergence; (hidden|outcome):
        features; (highest|others|random|planning): tokens; (independent|with_history): protocol;
        (indicator|linear|complement): AdaptiveEntropyBonus.weight; (k1|k2|k3): estimator; (k1|k2|k3|corrected_k3):
        KullbackLeibler.estimator; (kept|all): denominator; (kept|group): baseline; (length|planning|first_token):
        stratum; (length|reward_per_token): by; (llama|gemma): block; (maxrl|dr_grpo): base; (mean|max): over;
        (mean|sum): ClippedSequenceRatio.exponent; (min_p|fixed): LowProbabilityRegulariser.threshold;
        (none|half|short|think): forced; (none|layer|dots): remat; (none|optional|announced): Addition.scratchpad;
        (none|outcome|tokens): similarity; (ours|math_verify): parser; (outcome|tokens):
        SimilarityDiscount.similarity; (paper|code): form; (paper|verl): OverlongPunishment.form;
        (planning_mask|high_entropy|random|first): planned; (policy|reference): actor;
        (prompt|correct|other_prompt): AnswerConfidence.reference; (published|equalised): bonuses; (rank|quantile):
        HighEntropyTokens.threshold; (refuse|skip): without_number; (rest_of_set|other_sets|none):
        BestOfSets.baseline; (reverse_kl|forward_kl|jensen_shannon|alpha): divergence; (sequence_mean|token_mean):
        response; (sign|proportional): step; (small|hf): TextTaskSettings.policy; (smoke|demo): transfer.preset;
        (smoke|demo|paper): compare.preset; (states|tokens): sees; (table|group): partition; (token|answer): of;
        (token|sequence): level; (token|sequence|geometric): Masked.level; (token|state): SearchAgent.sees;
        (tokens|answers): counted; (uniform|reasoning_gym): Countdown.source
    """,
    "pair": "Cell.rewards; [0,inf): GammaWeight.negative GammaWeight.positive",
    "rows": "phase_portraits.rewards",
    "seeds": """
        keeper_seeds TrainingFlags.seeds compare.seeds group_size_and_floor.seeds hypergrid.seeds inside_trl.seeds
        molecules.seeds survival_map.seeds two_outcomes.seeds
    """,
    "seeds 2": "chains full_seeds network_seeds inverse_soft_rl.problems seeds shared_seeds task_seeds trained_seeds",
    "text": """
        data answer_key beginning builder contents data_dir transfer.document experiment folder SweepRun.identity
        kind model_dir TrainSettings.monitors name Controls.objective optimizer preset question_key scratchpad
        source split system_prompt tokenizer_dir tracker
    """,
    "text?": "coordinator",
    "text or object": "dataset",
    "text or texts": "questions",
    "texts": """
        acids biases cores ligands lora_targets EnsembleSettings.objectives AdditionModes.spellings stop_strings
        targets
    """,
    "whole": """
        modulus num_features phase_portraits.seed think_token MLP.vocabulary_size SharedTable.width; [-1,1024]:
        verifier_processes; [0,4]: shortest; [0,100000]: skip; [0,2147483647]: prior_seed ReasoningGym.seed
        WarmStart.seed warm_start.seed; [0,4294967295]: seed; [0,inf): compare.evaluate_every compare.group_size
        lora_rank most compare.prompts_per_step refresh_reference_every Demonstrations.seed compare.steps top_tokens
        warm_up workers; [1,2]: synonyms; [1,3]: HypospaceBoolean.depth digits; [1,4]: fitting; [1,5]:
        mode_bench.level; [1,6]: relations; [1,8]: lookups Factors.numbers Controls.steps; [1,9]: max_height;
        [1,24]: Controls.group_size; [1,60]: path_multiplicity.depth; [1,216]: AdditionModes.problems; [1,256]:
        StateSpace.num_layers TransformerConfig.num_layers; [1,400]: every turns; [1,630]:
        phase_portraits.group_size verdicts.group_size; [1,1000]: longest_work; [1,1024]: KnowledgeGraph.problems
        PlanAndExecute.problems; [1,4096]: overoptimisation.answers Addition.problems GraphSearch.problems users;
        [1,16384]: last_width DifficultyFilter.width; [1,100000]: least_solutions most_solutions problems;
        [1,1000000]: ReasoningGym.size WarmStart.steps; [1,1073741823]: keeper_steps; [1,2147483647]:
        TextTaskSettings.answers TrainingFlags.group_size TrainSettings.group_size TrainingFlags.prompts_per_step
        TrainSettings.prompts_per_step TrainSettings.steps; [1,inf): answers answers_per_prompt answers_per_step
        batch bucket budget calls characters checkpoint_every chunk convolution demonstrations depth dimensions
        divisions drawn draws epochs evaluate_every evaluations expansion forks Field.group_size Cell.group_size
        Sampled.group_size EnsembleSettings.group_size dapo_steps.group_size hybrid_addition.group_size
        hypergrid.group_size thought_switching.group_size two_outcomes.group_size heartbeat_timeout hidden_size
        intervals join_timeout PassAtK.k likeliest logits_at_once longest_prompt longest_reply max_tokens
        micro_batches mini_batches network_starts network_steps num_heads num_key_value_heads num_layers
        num_observations number original_length outcomes pair_steps parts pass_at passes prior_molecules prior_steps
        group_size_or_sampling.prompts prompts_at_once prompts_per_step query_block rank record_every records
        renderings rounds samples scan sets shared_steps BestAnswers.size phase_portraits.starts state_size steps
        steps_between taught text_steps dapo_steps.tokens transitions updates vocabulary_size width window; [2,6]:
        colors GraphSearch.depth grid numbers; [2,8]: nodes; [2,125]: recovery_time.group_size; [2,256]:
        distinctiveness.group_size staleness.group_size; [2,630]: slower_drains.group_size; [2,1000]: alphas
        largest_number; [2,1024]: planning_and_execution.group_size planning_and_execution.problems
        thought_switching.problems; [2,4096]: large_group; [2,65536]: molecules.group_size; [2,inf):
        mode_bench.answers asked branches families group_size BestOfSetsByWeights.k pairs population prior_batch
        critique.prompts_per_step rate_batches set_size shared_population side hybrid_modes.updates
        search_strata.updates; [3,6]: GraphSearch.branches; [3,12]: vertices; [3,inf): angles arrows
        many_outcomes.group_size; [4,9]: n; [4,12]: planning_and_execution.digits length; [4,26]: entities; [4,144]:
        hybrid_addition.problems; [4,inf): overoptimisation.problems task_steps dialogue_users.turns
        dialogue_users.updates; [5,inf): entropy_law.steps; [6,1000]: largest smallest; [8,inf):
        perturbed_policies.size slower_drains.steps; [10,1000]: largest_target; [16,inf): overoptimisation.pairs;
        [50,inf): overoptimisation.steps; [64,4096]: sft_bias.answers; [1,3]: longest_step; [0,6]: hidden; [1,7]:
        min_remove; [7,8]: max_remove; [1,9]: blocks; [0,27]: work
    """,
    "whole?": """
        [0,inf): process_id; [1,4]: observations; [1,inf): at_once cache head_dim intermediate_size limit
        num_processes top_k valid; [2,inf): k; [1,3]: max_edges perturbations
    """,
    "wholes": """
        MLP.hidden layers staleness.mini_batches EnsembleSettings.seeds; [0,inf): ends TokenPenalty.tokens; [1,4]:
        hops; [1,inf): hypergrid.dimensions two_techniques.prior_steps; [2,inf): group_size_or_sampling.group_sizes
    """,
    "wholes rising": """
        [0,64]: ages; [1,7]: right; [1,64]: slower_drains.passes; [1,1024]: sft_epochs; [1,1000000]:
        perturbed_policies.samples; [1,1048576]: group_size_and_floor.group_sizes; [1,1e9]: covariate_shift.samples;
        [2,7]: depths rare_depths; [2,125]: group_sizes; [2,256]: grpo_failures.group_sizes; [2,10000]:
        perturbed_policies.draws; [2,1048576]: num_outcomes; [2,100000000]: inverse_soft_rl.lengths
    """,
    "wholes?": "[0,inf): starts",
}
"""Kind -> fields of the dataclasses that are `Checked`, by range."""
