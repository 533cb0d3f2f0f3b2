"""Nothing that comes with a model, a checkpoint, a specification or an answer is executed: SECURITY.md says so.

Each test plants code that would leave a file, the sentinel, and looks for it.
"""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.environments.agents.tools import Calculator
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.reading.expressions import read_expression
from ipsrl.environments.reading.numeric_answers import read_number, read_value
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.policies import hugging_face
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.training.storage import stored_tree
from ipsrl.training.storage.checkpoints import Checkpoints
from scripts.make_checkpoint import make_checkpoint

TASK = HypospaceBoolean("basic", depth=1)


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def sentinel(tmp_path):
    """A file that must not be there when the test ends."""
    path = tmp_path / "executed"
    yield path
    assert not path.exists()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    make_checkpoint(folder, "qwen2")
    return folder


@pytest.fixture
def model(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def language_task(model):
    size = read_policy(model).vocabulary_size
    return LanguageTask(TASK, str(model), size, longest_prompt=1500, verifier=VerifierPool(0))


def test_the_sentinel_shows_what_is_executed(tmp_path):
    pickle.loads(pickle.dumps(Touch(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


def test_pickled_weights_are_not_read(model, sentinel):
    (model / "model.safetensors").rename(model / "elsewhere")
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Touch(sentinel)))
    with pytest.raises(ValueError, match="convert its weights to safetensors"):
        hugging_face.load_parameters(model, read_policy(model))


def test_a_pickle_by_the_name_of_safetensors_is_refused(model, sentinel):
    (model / "model.safetensors").write_bytes(pickle.dumps(Touch(sentinel)))
    with pytest.raises(ValueError, match=r"model\.safetensors is no complete safetensors file"):
        hugging_face.load_parameters(model, read_policy(model))


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_in_the_folder_of_a_model_is_not_imported(model, sentinel, file):
    (model / "theirs.py").write_text(f"import pathlib\npathlib.Path({str(sentinel)!r}).touch()\n")
    path = model / file
    names = {"AutoConfig": "theirs.C", "AutoModelForCausalLM": "theirs.M", "AutoTokenizer": ["theirs.T", "theirs.T"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"auto_map": names}))
    # Read as without it, or refused.
    try:
        read_policy(model)
        _ = language_task(model).prompt_table
    except ValueError:
        pass


@pytest.mark.parametrize(
    "escape",
    [
        "{{ cycler.__init__.__globals__.os.system('touch SENTINEL') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
    ],
)
def test_a_chat_template_stays_in_its_sandbox(model, sentinel, escape):
    (model / "chat_template.jinja").write_text(escape.replace("SENTINEL", str(sentinel)))
    with pytest.raises(ValueError, match=r"the chat template in .* (refuses|changes)"):
        _ = language_task(model).prompt_table


@pytest.mark.parametrize(
    "text",
    [
        "__import__('pathlib').Path('SENTINEL').touch()",
        "grpo(kl=__import__('pathlib').Path('SENTINEL').touch())",
        "grpo(kl=[x for x in (open('SENTINEL', 'w'),)])",
        "(lambda: open('SENTINEL', 'w'))()",
        "grpo(**{'kl': open('SENTINEL', 'w')})",
    ],
)
def test_a_specification_is_not_evaluated(sentinel, text):
    with pytest.raises(ValueError, match=r"cannot read|is not a number|unknown"):
        objectives.make(text.replace("SENTINEL", str(sentinel)))


@pytest.mark.parametrize("read", [read_expression, read_number, read_value, Calculator(), TASK.reader])
def test_an_answer_is_not_evaluated(sentinel, read):
    for text in ("__import__('pathlib').Path('{}').touch()", "open('{}', 'w')", "answer: (1).__class__('{}')"):
        read(text.format(sentinel))


def test_a_checkpoint_holds_arrays_alone(tmp_path, sentinel):
    """No file of a checkpoint is a pickle, and one in its place is refused."""
    state = {"weights": np.arange(6.0, dtype=np.float32)}
    with Checkpoints(tmp_path / "checkpoints", every=1) as checkpoints:
        checkpoints.save(1, state)
    step = tmp_path / "checkpoints" / "1"
    files = [path for path in step.rglob("*") if path.is_file() and path.name != stored_tree.SEAL]
    bomb = pickle.dumps(Touch(sentinel))
    for path in files:
        kept = path.read_bytes()
        path.write_bytes(bomb)
        # Whoever writes a checkpoint can also seal it.
        stored_tree.seal(step)
        try:
            stored_tree.check(step, state)
            stored_tree.load(step, state)
        except (stored_tree.DamagedTreeError, ValueError):
            pass
        path.write_bytes(kept)
