"""The command line of a study: flags made from its settings, presets, and bad input in one sentence."""

import contextlib
import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from ipsrl import extras
from ipsrl.checking.paths import expanded
from ipsrl.command import extensions
from ipsrl.command.definitions import Module
from ipsrl.command.ending import Ending
from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import Cluster, start_up
from ipsrl.records.trackers import PACKAGES, read_trackers
from ipsrl.study.curves import Output
from ipsrl.study.settings import KINDS, Settings, as_text, kinds_of, resolve
from ipsrl.study.study import Study, run

FORMER_NAMES = {"rules": "filters", "mirror": "tracker", "sample_ahead": "async_rollouts"}
"""Former name of a flag -> its name; both are accepted."""


def main(module: str | None) -> None:
    """Runs a study from the command line: `main(__name__)` at the end of its module, or `main(__package__)` in the
    module `__main__` of its package.

    Each setting is a flag that overrides the preset. Settings may have an attribute `host_devices`, the number of CPU
    devices if neither --host_devices nor --multihost is given. A module with MANY_HOSTS has the flag --multihost and
    can run on many hosts as one program: only the first host prints results, bad input ends all hosts with the same
    message, and if one host is lost or fails alone, the others end within a minute. A module with TRACKERS has the flag
    --tracker.

    `ipsrl.command.ending` says how the program ends.
    """
    if not module:
        sys.exit("error: a study of a folder runs by its name, python -m experiments.NAME, not by the path of a file")
    loaded = sys.modules[module]
    name = (loaded.__spec__.name if loaded.__spec__ else Path(inspect.getfile(loaded)).stem).rpartition(".")[2]
    try:
        study = Study.of(loaded, name)
    except ValueError as error:
        sys.exit(f"error: {error}")
    given = CommandLine(name, study.presets, study.many_hosts, study.trackers, flags.FLAGS)

    # --help shows the docstring of the main module, here the study's; the flags are described by those of the settings.
    main_module = sys.modules["__main__"]
    settings_class = type(next(iter(study.presets.values())))
    bases = [base for base in settings_class.__mro__ if issubclass(base, Settings) and base is not Settings]
    described = [inspect.getdoc(base) for base in bases]
    main_module.__doc__ = "\n\n".join(filter(None, (loaded.__doc__, *described)))

    def absl_main(arguments: list[str]) -> None:
        # absl would show the INFO messages of all libraries.
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        with Ending("the same command with --resume continues") as ending:
            extensions.load(given["extensions"])
            settings, cluster, trackers = given.read(arguments)
            if cluster is not None:
                ending.supervise()
            by_default = getattr(settings, "host_devices", None) if cluster is None else None
            start_up(by_default if given["host_devices"] is None else given["host_devices"], cluster)
            silent = contextlib.nullcontext() if hosts.is_first() else contextlib.redirect_stdout(None)
            with hosts.on_all_hosts(), silent:
                path = expanded(given["out"] or f"runs/{name}-{given['preset']}", "--out")
                run(study, settings, given["preset"], Output(path, given["resume"], trackers))

    app.run(absl_main, flags_parser=functools.partial(parse, flags.FLAGS))


def refuse(name: str, module: Module, arguments: list[str]) -> None:
    """Ends the program with a sentence if a command line is wrong, as far as its flags tell, or a package is missing;
    starts nothing. Of the study's module only PRESETS, MANY_HOSTS, TRACKERS and NEEDS are looked at.
    """
    if any(re.match(r"--?(help|\?)", argument) for argument in arguments):
        return
    values = flags.FlagValues()
    # Those of absl itself, which its module `app` defines where it is imported.
    values.append_flag_values(flags.FLAGS)
    of_all = (getattr(module, "MANY_HOSTS", False), getattr(module, "TRACKERS", False))
    given = CommandLine(name, module.PRESETS, *of_all, values)
    rest = parse(values, arguments)
    if given["extensions"] or extensions.loaded():
        return
    try:
        given.read(rest)
        for package in getattr(module, "NEEDS", ()):
            extras.require(package)
    except ValueError as error:
        sys.exit(f"error: {error}")


class CommandLine:
    """The flags of a study, and what they say.

    `given["out"]` is the value of a flag. Each setting is a flag by its name.
    """

    def __init__(
        self,
        name: str,
        presets: Mapping[str, Settings],
        many_hosts: bool,
        trackers: bool,
        values: flags.FlagValues,
    ):
        """Defines the flags in `values`; of a study without MANY_HOSTS or TRACKERS fewer."""
        self._presets, self._values, defined = presets, values, []
        of_class = type(next(iter(presets.values())))
        self._settings = kinds_of(of_class)
        fields = dataclasses.fields(of_class)
        # A range that depends on other fields has no phrase of its own.
        ranges = {field.name: getattr(field.metadata.get("range"), "phrase", "") for field in fields}

        def define(kind: Callable[..., flags.FlagHolder], *arguments: Any) -> None:
            defined.append(kind(*arguments, flag_values=values).name)

        for setting, kind in self._settings.items():
            texts = {size: as_text(settings, setting) for size, settings in presets.items()}
            of_all, *others = set(texts.values())
            defaults = ", ".join(f"{size}: {text!r}" for size, text in texts.items()) if others else repr(of_all)
            boolean = kind is KINDS[bool]
            allowed = f"; must {phrase}" if (phrase := ranges.get(setting)) else ""
            what = f"{kind.described}{allowed}; by default {defaults}"
            define(flags.DEFINE_bool if boolean else flags.DEFINE_string, setting, None, what)
        define(flags.DEFINE_string, "preset", "demo", f"size of the experiment: {', '.join(presets)}")
        define(flags.DEFINE_string, "out", None, f"folder for all results; runs/{name}-<preset> by default")
        define(flags.DEFINE_bool, "resume", False, "continue the runs in --out")
        define(flags.DEFINE_string, "extensions", "", extensions.FLAG_HELP)
        define(
            flags.DEFINE_integer,
            "host_devices",
            None,
            "number of CPU devices that share prompts or runs; by default one, or, for text tasks without --mesh and "
            "--multihost, the largest divisor of a micro-batch's prompts that all cores allow",
        )
        if trackers:
            which = f"trackers that receive the metrics of training runs: {', '.join(PACKAGES)}, or both"
            define(flags.DEFINE_string, "tracker", "", which)
        if many_hosts:
            unknown = "if JAX cannot detect it (it can on TPU pods and under SLURM, Open MPI and Kubernetes)"
            define(flags.DEFINE_bool, "multihost", False, "run as one program with the same command on other hosts")
            define(flags.DEFINE_string, "coordinator", None, f"address:port of the first process, {unknown}")
            define(flags.DEFINE_integer, "num_processes", None, f"number of processes, {unknown}")
            define(flags.DEFINE_integer, "process_id", None, f"index of this process, from 0, {unknown}")
            waits = f"seconds that this process waits for the others to join; {Cluster.join_timeout} by default"
            define(flags.DEFINE_integer, "join_timeout", None, waits)
        for former, name_now in FORMER_NAMES.items():
            if name_now in values:
                flags.DEFINE_alias(former, name_now, flag_values=values)
        # --help shows only the flags of the main module; these are defined here on its behalf.
        for flag in defined:
            values.register_key_flag_for_module(sys.argv[0], values[flag])

    def __getitem__(self, name: str) -> Any:
        return self._values[name].value if name in self._values else None

    def read(self, arguments: list[str]) -> tuple[Settings, Cluster | None, tuple[str, ...]]:
        """The settings of the preset, overridden by flags; the cluster, None for a single process; and the trackers.

        The arguments are those that are no flags, of which the first is the program.

        Raises:
          ValueError: there are more such arguments, a flag is wrong, --out is empty or in no one's home folder, or a
            cluster is described without --multihost.
        """
        if len(arguments) > 1:
            raise ValueError(f"unexpected argument {arguments[1]!r}: options are written --name=value")
        if self["out"] == "":
            raise ValueError("--out is empty: name a folder for all results")
        expanded(self["out"] or "", "--out")
        given = {setting: str(self[setting]) for setting in self._settings if self[setting] is not None}
        settings = resolve(self._presets, self["preset"], given)
        return settings, self._cluster(), read_trackers(self["tracker"] or "")

    def _cluster(self) -> Cluster | None:
        names = ("coordinator", "num_processes", "process_id", "join_timeout")
        given = {name: self[name] for name in names if self[name] is not None}
        if self["multihost"]:
            return Cluster(**given)
        for name in given:
            raise ValueError(f"--{name} says how processes find each other: give it together with --multihost")
        return None


def parse(values: flags.FlagValues, arguments: list[str]) -> list[str]:
    """absl's parser, whose errors are sentences like all others; returns what is no flag."""
    try:
        return values(arguments)
    except (flags.Error, ValueError) as error:
        # What absl says of a boolean is a tuple.
        said = re.sub(r"\('Non-boolean argument.*", "it must be true or false", str(error))
        sys.exit(f"error: {said.removeprefix('ERROR:: ')}")
