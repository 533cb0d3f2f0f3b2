"""The command line of a study: flags made from its settings, presets, and bad input in one sentence."""

import contextlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path

from absl import app, flags, logging
from jax.errors import JaxRuntimeError

from ipsrl import extensions
from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import Cluster, start_up
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.records.trackers import PACKAGES, read_trackers
from ipsrl.study.settings import KINDS, Settings, as_text, kinds_of, resolve
from ipsrl.study.study import Output, Study, run

FORMER_NAMES = {"rules": "filters", "mirror": "tracker", "sample_ahead": "async_rollouts"}
"""Former name of a flag -> its name; both are accepted."""


def main(module: str) -> None:
    """Runs a study from the command line: `main(__name__)` at the end of its module.

    Each setting is a flag that overrides the preset. Settings may have an attribute `host_devices`, the number of CPU
    devices if neither --host_devices nor --multihost is given. A module with MANY_HOSTS has the flag --multihost and
    can run on many hosts as one program: only the first host prints results, bad input ends all hosts with the same
    message, and if one host is lost or fails alone, the others end within a minute. A module with TRACKERS has the flag
    --tracker.

    A `ValueError` (bad input), a `NonFiniteLossError` or an `OSError` (a disk that refuses) ends the program with its
    message in one line and exit status 1; `--verbosity=1` shows the traceback. Ctrl-C ends it with a hint about
    `--resume` and exit status 130.
    """
    loaded = sys.modules[module]
    name = (loaded.__spec__.name if loaded.__spec__ else Path(loaded.__file__).stem).rpartition(".")[2]
    try:
        study = Study.of(loaded, name)
    except ValueError as error:
        sys.exit(f"error: {error}")
    presets = study.presets
    settings_class = type(next(iter(presets.values())))
    overrides = {}
    for setting, kind in kinds_of(settings_class).items():
        defaults = ", ".join(f"{size}: {as_text(settings, setting)!r}" for size, settings in presets.items())
        define = flags.DEFINE_bool if kind is KINDS[bool] else flags.DEFINE_string
        overrides[setting] = define(setting, None, f"{kind.described}; by default {defaults}")
    preset = flags.DEFINE_string("preset", "demo", f"size of the experiment: {', '.join(presets)}")
    out = flags.DEFINE_string("out", None, f"folder for all results; runs/{name}-<preset> by default")
    resume = flags.DEFINE_bool("resume", False, "continue the runs in --out")
    extension = flags.DEFINE_string("extensions", "", extensions.FLAG_HELP)
    devices = flags.DEFINE_integer(
        "host_devices",
        None,
        "number of CPU devices that share prompts or runs; by default one, or, for text tasks without --mesh and "
        "--multihost, the largest divisor of a micro-batch's prompts that all cores allow",
    )
    where_else = f"trackers that receive the metrics of training runs: {', '.join(PACKAGES)}, or both"
    tracker = [flags.DEFINE_string("tracker", "", where_else)] if study.trackers else []
    multihost = _multihost_flags() if study.many_hosts else {}
    for former, name_now in FORMER_NAMES.items():
        if name_now in flags.FLAGS:
            flags.DEFINE_alias(former, name_now)
    # --help shows only the flags of the main module; these are defined here on its behalf.
    own = (*overrides.values(), preset, out, resume, extension, devices, *tracker, *multihost.values())
    for flag in own:
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[flag.name])

    # --help shows the docstring of the main module; the flags are described by those of the settings.
    main_module = sys.modules["__main__"]
    bases = [base for base in settings_class.__mro__ if issubclass(base, Settings) and base is not Settings]
    described = [inspect.getdoc(base) for base in bases]
    main_module.__doc__ = "\n\n".join(filter(None, (main_module.__doc__, *described)))

    def absl_main(arguments: list[str]) -> None:
        # absl would show the INFO messages of all libraries.
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        try:
            if len(arguments) > 1:
                raise ValueError(f"unexpected argument {arguments[1]!r}: options are written --name=value")
            extensions.load(extension.value)
            given = {setting: str(flag.value) for setting, flag in overrides.items() if flag.value is not None}
            settings = resolve(presets, preset.value, given)
            tracked = read_trackers(flags.FLAGS.tracker) if study.trackers else ()
            cluster = _cluster(multihost)
            by_default = getattr(settings, "host_devices", None) if cluster is None else None
            start_up(by_default if devices.value is None else devices.value, cluster)
            silent = contextlib.nullcontext() if hosts.is_first() else contextlib.redirect_stdout(None)
            with hosts.on_all_hosts(), silent:
                path = Path(out.value or f"runs/{name}-{preset.value}")
                run(study, settings, preset.value, Output(path, resume.value, tracked))
        except (ValueError, NonFiniteLossError, OSError) as error:
            logging.debug("the error came from here", exc_info=True)
            sys.exit(f"error: {error}")
        except (MemoryError, JaxRuntimeError) as error:
            if isinstance(error, JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
                raise
            logging.debug("the error came from here", exc_info=True)
            sys.exit(f"error: out of memory: {str(error).partition(chr(10))[0] or 'choose a smaller model or batch'}")
        except KeyboardInterrupt:
            print("interrupted: the same command with --resume continues", file=sys.stderr)
            sys.exit(130)

    app.run(absl_main, flags_parser=_parse)


def _parse(arguments: list[str]) -> list[str]:
    """absl's parser, whose errors are sentences like all others."""
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        sys.exit(f"error: {error}")


def _multihost_flags() -> dict[str, flags.FlagHolder]:
    unknown = "if JAX cannot detect it (it can on TPU pods and under SLURM, Open MPI and Kubernetes)"
    return {
        "multihost": flags.DEFINE_bool("multihost", False, "run as one program with the same command on other hosts"),
        "coordinator": flags.DEFINE_string("coordinator", None, f"address:port of the first process, {unknown}"),
        "num_processes": flags.DEFINE_integer("num_processes", None, f"number of processes, {unknown}"),
        "process_id": flags.DEFINE_integer("process_id", None, f"index of this process, from 0, {unknown}"),
    }


def _cluster(multihost: Mapping[str, flags.FlagHolder]) -> Cluster | None:
    """The cluster of these flags; None for a single process."""
    given = {name: flag.value for name, flag in multihost.items()}
    if given.pop("multihost", False):
        return Cluster(**given)
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{name} says how processes find each other: give it together with --multihost")
    return None
