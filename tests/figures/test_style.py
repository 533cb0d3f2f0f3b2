import resource

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from ipsrl.figures import style
from ipsrl.records.json_files import replace_file
from ipsrl.records.line_styles import line_styles, style_numbers


def test_save_writes_the_same_bytes_again(tmp_path):
    def draw():
        with style.looks():
            figure = Figure(figsize=(2, 1.5))
            figure.subplots().plot([0, 1, 4], **line_styles(["one"])["one"])
        return figure

    rows = [{"x": 0, "value": np.float32(0.1)}, {"x": 1, "value": np.float64(0.1)}]
    first = style.save(draw(), tmp_path / "new folder" / "first", rows)
    second = style.save(draw(), tmp_path / "second", rows)
    assert first == tmp_path / "new folder" / "first.png"
    for suffix in (".png", ".pdf", ".csv"):
        assert first.with_suffix(suffix).read_bytes() == second.with_suffix(suffix).read_bytes()
    assert imread(first)[..., :3].std() > 0.02


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_a_figure_for_which_there_is_no_room_leaves_the_old_one_and_says_which(suffix, tmp_path, monkeypatch):
    def replace(path, content):
        if path.suffix == f".{suffix}":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        replace_file(path, content)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = style.save(Figure(figsize=(2, 1.5)), tmp_path / "figure", [{"x": 0}]).with_suffix(f".{suffix}")
    whole = old.read_bytes()
    monkeypatch.setattr(style, "replace_file", replace)
    try:
        with pytest.raises(OSError, match=f"figure.{suffix}"):
            style.save(Figure(figsize=(3, 1.5)), tmp_path / "figure", [{"x": 0}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert old.read_bytes() == whole


def test_a_caption_lies_beside_the_figure_and_a_mark_stands_in_it(tmp_path):
    def saved(name, **more):
        with style.looks():
            figure = Figure(figsize=(2, 1.5))
            figure.subplots()
        return style.save(figure, tmp_path / name, [{"x": 0}], **more), figure

    png, _ = saved("plain")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".pdf", ".png"]
    marked, figure = saved("marked", caption="What one sees: α.", mark="preset smoke: no claim is decided")
    assert marked.with_suffix(".txt").read_text() == "What one sees: α.\n"
    assert [text.get_text() for text in figure.texts] == ["preset smoke: no claim is decided"]
    changed = (imread(marked) != imread(png)).any(axis=2)
    # Only the lower right corner changes.
    assert changed.any()
    assert not changed[: int(0.9 * len(changed))].any()


def test_names_keep_their_styles_and_differ_in_more_than_colour():
    looks = line_styles(["grpo", "ips_grpo", "grpo", "progrpo"])
    assert list(looks) == ["grpo", "ips_grpo", "progrpo"]
    for part in ("color", "linestyle", "marker"):
        assert len({str(look[part]) for look in looks.values()}) == 3
    lightness = [np.mean([int(look["color"][i : i + 2], 16) for i in (1, 3, 5)]) for look in looks.values()]
    assert min(abs(np.subtract.outer(lightness, lightness)[np.triu_indices(3, 1)])) > 20


def test_any_two_lines_differ_in_marker_and_in_colour_or_dashes():
    looks = line_styles("abcdefghijkl").values()
    assert len({look["marker"] for look in looks}) == 12
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 12
    with style.looks():
        axes = Figure().subplots()
        for look in looks:
            axes.plot([0, 1], **look)
    with pytest.raises(ValueError, match="at most 12 lines apart, not 13: draw fewer at once"):
        line_styles("abcdefghijklm")


def test_a_name_that_many_figures_show_looks_the_same_in_each():
    figures = [
        ("grpo", "ips_grpo(floor=0.2)", "progrpo", "prior"),
        ("prior", "grpo", "IPS-GRPO"),
        ("an arm", "GRPO", "prior"),
        ("placebo", "ips_grpo", "prior", "grpo", "ips_grpo(floor=0.2)"),
        ("an arm", "another", "placebo", "ProGRPO"),
    ]
    of_each = {}
    for names in figures:
        looks = line_styles(names)
        assert len({str(look) for look in looks.values()}) == len(names)
        for name, look in looks.items():
            of_each.setdefault(name.lower().replace("-", "_"), []).append(look)
    for name, looks in of_each.items():
        assert name.startswith("an") or all(look == looks[0] for look in looks), name
    # More than there are styles, as in a report, or one name in two spellings.
    assert style_numbers(["a", "prior", *"bcdefghijklm"]) == [0, 3, 1, 2, *range(4, 12), 0, 1]
    assert style_numbers(["grpo", "GRPO"]) == [0, 1]
