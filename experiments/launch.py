"""What all experiments share on the command line: flags made from a settings dataclass, presets, and bad input."""

import contextlib
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from ipsrl.distributed import hosts
from ipsrl.distributed.start_up import Cluster, start_up
from ipsrl.training.mirrors import PACKAGES, read_mirrors
from ipsrl.training.run_log import NonFiniteLossError


@dataclasses.dataclass(frozen=True)
class Output:
    """Where results go.

    Attributes:
      path: the folder of the whole experiment; each training run has a folder of its own in it.
      resume: continue what is there.
      mirrors: where else the metrics of training runs go, see `ipsrl.training.mirrors`.
    """

    path: Path
    resume: bool
    mirrors: tuple[str, ...] = ()

    def inside(self, name: str) -> "Output":
        """The same in a folder of this one."""
        return dataclasses.replace(self, path=self.path / name)


def launch(
    experiment: str,
    presets: Mapping[str, Any],
    run: Callable[[Any, Output], None],
    many_hosts: bool = False,
    mirrors: bool = False,
) -> None:
    """Runs an experiment from the command line.

    Each int, float, str or bool among the fields of the presets' settings dataclass becomes a flag that overrides the
    preset; only presets differ in the others. Settings may have an attribute `host_devices`: into how many devices the
    CPU is divided where neither the flag of that name is given nor --multihost.

    A `ValueError` (bad input), a `NonFiniteLossError` or an `OSError` (a disk that refuses) ends the program with its
    message in one line and exit status 1; `--verbosity=1` shows where it came from. Ctrl-C ends it with a word of
    `--resume` and exit status 130.

    Args:
      experiment: name, for the default output folder.
      presets: name -> settings.
      run: what to do with the resolved settings.
      many_hosts: whether it can run on many hosts as one program, and has the flag --multihost. Then the first host
        alone prints results. Bad input ends all of them with the same message; where one is lost, or fails alone, the
        others end within a minute.
      mirrors: whether it has training runs whose metrics can be mirrored, and the flag --mirror. Modules say both by
        their constants `MANY_HOSTS` and `MIRRORS`, which sweeps read.
    """
    settings_class = type(next(iter(presets.values())))
    define = {int: flags.DEFINE_integer, float: flags.DEFINE_float, str: flags.DEFINE_string, bool: flags.DEFINE_bool}
    overrides = {
        name: define[kind](name, None, f"by default {_defaults(presets, name)}")
        for name, kind in flag_types(presets).items()
    }
    preset = flags.DEFINE_string("preset", "demo", f"size of the experiment: {', '.join(presets)}")
    out = flags.DEFINE_string("out", None, f"folder for all results; runs/{experiment}-<preset> by default")
    resume = flags.DEFINE_bool("resume", False, "continue the runs that --out holds")
    devices = flags.DEFINE_integer(
        "host_devices",
        None,
        "CPU devices to divide prompts or runs over; by default one, or, where text is learned without --mesh and "
        "--multihost, one for each core, as far as they divide the prompts of a micro-batch",
    )
    mirror = _mirror_flag() if mirrors else {}
    multihost = _multihost_flags() if many_hosts else {}
    # --help shows the flags of the main module, which these belong to in all but the place of their definition.
    for flag in (*overrides.values(), preset, out, resume, devices, *mirror.values(), *multihost.values()):
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[flag.name])

    # --help shows the docstring of the main module, and what its flags are stands in those of the settings.
    main_module = sys.modules["__main__"]
    described = [inspect.getdoc(base) for base in settings_class.__mro__ if dataclasses.is_dataclass(base)]
    main_module.__doc__ = "\n\n".join(filter(None, (main_module.__doc__, *described)))

    def main(arguments: list[str]) -> None:
        # absl would show what every library logs for information.
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        try:
            if len(arguments) > 1:
                raise ValueError(f"unexpected argument {arguments[1]!r}: options are written --name=value")
            given = {name: flag.value for name, flag in overrides.items() if flag.value is not None}
            settings = resolve(presets, preset.value, given)
            mirrored = read_mirrors(mirror["mirror"].value) if mirror else ()
            cluster = _cluster(multihost)
            by_default = getattr(settings, "host_devices", None) if cluster is None else None
            start_up(by_default if devices.value is None else devices.value, cluster)
            silent = contextlib.nullcontext() if hosts.is_first() else contextlib.redirect_stdout(None)
            with hosts.together(), silent:
                path = Path(out.value or f"runs/{experiment}-{preset.value}")
                run(settings, Output(path, resume.value, mirrored))
        except (ValueError, NonFiniteLossError, OSError) as error:
            logging.debug("the error came from here", exc_info=True)
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            print("interrupted: the same command with --resume takes up what is finished", file=sys.stderr)
            sys.exit(130)

    app.run(main)


def flag_types(presets: Mapping[str, Any]) -> dict[str, type]:
    """Name -> int, float, str or bool: the fields of the presets' settings that are flags."""
    settings_class = type(next(iter(presets.values())))
    hints = typing.get_type_hints(settings_class)
    return {
        field.name: hints[field.name]
        for field in dataclasses.fields(settings_class)
        if hints[field.name] in (int, float, str, bool)
    }


def resolve(presets: Mapping[str, Any], preset: str, given: Mapping[str, Any]) -> Any:
    """The settings of a preset, with what flags give in place of its own.

    Raises:
      ValueError: the preset is unknown, or the settings cannot be.
    """
    if preset not in presets:
        raise ValueError(f"unknown preset {preset!r}; known: {', '.join(presets)}")
    return dataclasses.replace(presets[preset], **given)


def _mirror_flag() -> dict[str, flags.FlagHolder]:
    known = ", ".join(PACKAGES)
    return {
        "mirror": flags.DEFINE_string("mirror", "", f"where else the metrics of training runs go: {known}, or both")
    }


def _multihost_flags() -> dict[str, flags.FlagHolder]:
    unknown = "where JAX cannot find it out (it can on TPU pods and under SLURM, Open MPI and Kubernetes)"
    return {
        "multihost": flags.DEFINE_bool("multihost", False, "run as one program with the same command on other hosts"),
        "coordinator": flags.DEFINE_string("coordinator", None, f"address:port of the first process, {unknown}"),
        "num_processes": flags.DEFINE_integer("num_processes", None, f"number of processes, {unknown}"),
        "process_id": flags.DEFINE_integer("process_id", None, f"which of them this is, from 0, {unknown}"),
    }


def _cluster(multihost: Mapping[str, flags.FlagHolder]) -> Cluster | None:
    """What the flags say; None for a single process."""
    given = {name: flag.value for name, flag in multihost.items()}
    if given.pop("multihost", False):
        return Cluster(**given)
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{name} says how processes find each other: give it together with --multihost")
    return None


def read_seeds(text: str) -> tuple[int, ...]:
    """`"0,1,2"` or `"0:3"` -> (0, 1, 2)."""
    try:
        if ":" in text:
            first, end = map(int, text.split(":"))
            seeds = tuple(range(first, end))
        else:
            seeds = tuple(int(seed) for seed in text.split(","))
    except ValueError:
        seeds = ()
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**31:
        raise ValueError(f"cannot read seeds {text!r}: write different numbers below 2^31 as 0,1,2 or a range as 0:3")
    return seeds


def read_numbers(text: str, kind: type = float, count: int | None = None) -> tuple:
    """`"2.0,1.0"` -> (2.0, 1.0); `kind` is float or int, `count` says how many there must be."""
    try:
        numbers = tuple(kind(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count):
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"cannot read {text!r}: write {f'{count} ' if count else ''}{what} between commas")
    return numbers


def require_positive(settings: Any, *names: str) -> None:
    """Raises ValueError where one of these settings is not above zero."""
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"--{name} is {getattr(settings, name)}, it must be positive")


def folder_name(specification: str) -> str:
    """A file name for an objective or an environment: `ips_grpo(floor=0.2)` -> `ips_grpo-floor=0.2`."""
    return re.sub(r"[^\w.=+]+", "-", specification).strip("-")


def _defaults(presets: Mapping[str, Any], name: str) -> str:
    return ", ".join(f"{preset}: {getattr(settings, name)!r}" for preset, settings in presets.items())
