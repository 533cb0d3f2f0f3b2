"""The page in a browser: it loads by itself, its controls work, and no text of a run is more than a text."""

import sys

import pytest

from ipsrl.records.report.page import embedded, page, write_report
from scripts.report import main
from tests import chromium
from tests.chromium import wait_for
from tests.records.report.run_folders import HOSTILE, write_run


def test_json_cannot_leave_its_script_element():
    text = embedded({"text": "</script><!--<script>&\u2028\ud800"})
    assert not set("<>&") & set(text)
    assert text.isascii()


def test_marks_in_what_is_put_in_are_no_marks():
    made = page({"title": "{{script}} <b>"}, bundle="{{content}}")
    assert "<title>{{script}} &lt;b&gt;</title>" in made
    assert "<script>{{content}}</script>" in made


def test_without_plotly_its_extra_is_named(tmp_path, monkeypatch):
    write_run(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ValueError, match=r'pip install -e "\.\[analysis\]"$'):
        write_report(tmp_path, tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


def test_the_command(tmp_path, capsys):
    write_run(tmp_path / "run")
    main([str(tmp_path)])
    assert capsys.readouterr().out == f"report: {tmp_path}/report.html\n"
    main([str(tmp_path), f"--out={tmp_path}/page.html", "--title=<Mine>"])
    assert "<title>&lt;Mine&gt;</title>" in (tmp_path / "page.html").read_text()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a window."""
    browser = chromium.started(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def report_of_many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        write_run(folder / f"a/{seed}", "grpo", seed, value=0.2)
        write_run(folder / f"b/{seed}", "ips_grpo", seed, value=0.6)
    write_run(
        folder / "hostile", HOSTILE, value=0.4, completion=HOSTILE, warnings=[HOSTILE], settings={"rule": HOSTILE}
    )
    write_run(folder / "other", settings={"environment": "Countdown(numbers=4)"})
    return write_report(folder, folder / "report.html", title=HOSTILE)


@pytest.fixture
def opened(browser, report_of_many):
    """The page, just loaded; at the end nothing may have gone wrong in it."""
    browser.get(report_of_many.as_uri())
    yield browser
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    # The texts of the runs would have changed it.
    assert browser.title.startswith("</script><script>")


def drawn(browser, plot="curve"):
    """The lines of a plot with a name: name -> heights."""
    return dict(
        browser.execute_script(
            "return document.getElementById(arguments[0]).data.filter(t => t.name).map(t => [t.name, [...t.y]])", plot
        )
    )


def choose(browser, name, text):
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("id", name)).select_by_visible_text(text)


def tick(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


@pytest.mark.slow
def test_curves_follow_their_controls(opened):
    hostile = HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    curves = drawn(opened)
    assert set(curves) == {"grpo", "ips_grpo", hostile}
    assert curves["grpo"] == pytest.approx([0.1, 0.105, 0.21])
    assert opened.find_element("css selector", "#curve .ytitle").text == "recovery"

    # The band of three seeds is their range.
    bands = opened.execute_script(
        "return document.getElementById('curve').data.filter(t => !t.name).map(t => t.y.at(-1))"
    )
    assert bands == pytest.approx([0.2, 0.22, 0.6, 0.62])

    choose(opened, "metric", "reward")
    assert drawn(opened)["grpo"] == pytest.approx([step / 6 for step in range(1, 7)], rel=1e-3)
    choose(opened, "metric", "recovery")

    tick(opened, "#groups .chip:nth-child(1) > label input")
    assert set(drawn(opened)) == {"ips_grpo", hostile}
    # The last of the seeds comes back alone.
    tick(opened, "#groups .chip:nth-child(1) details label:nth-child(3) input")
    assert drawn(opened)["grpo"] == pytest.approx([0.1, 0.11, 0.22])
    state = "const box = document.querySelector('#groups input'); return [box.checked, box.indeterminate]"
    assert opened.execute_script(state) == [True, True]
    tick(opened, "#none")
    assert drawn(opened) == {}
    tick(opened, "#all")
    assert len(drawn(opened)) == 3

    choose(opened, "view", "each seed")
    assert set(drawn(opened)) == {
        *(f"{name}, seed {seed}" for name in ("grpo", "ips_grpo") for seed in range(3)),
        f"{hostile}, seed 0",
    }
    tick(opened, "#logarithmic")
    assert opened.execute_script("return document.getElementById('curve').layout.yaxis.type") == "log"


@pytest.mark.slow
def test_plots_zoom_and_answer_the_pointer_and_send_nothing(opened):
    from selenium.webdriver import ActionChains

    def reach():
        return opened.execute_script("return [...document.getElementById('curve').layout.xaxis.range]")

    area = opened.find_element("css selector", "#curve .nsewdrag")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", area)
    low, high = reach()
    ActionChains(opened).move_to_element_with_offset(area, 100, 0).pause(0.5).perform()
    wait_for(opened, "document.querySelector('#curve .hoverlayer').textContent.includes('grpo: 0.1')")
    ActionChains(opened).click_and_hold(area).move_by_offset(150, 0).release().perform()
    zoomed = reach()
    assert low < zoomed[0] < zoomed[1] < high
    # The choice of runs leaves it.
    tick(opened, "#groups input")
    assert reach() == zoomed
    buttons = {button.get_attribute("data-title") for button in opened.find_elements("css selector", ".modebar-btn")}
    assert "Zoom" in buttons
    assert not any("share" in title.lower() or "cloud" in title.lower() for title in buttons)


@pytest.mark.slow
def test_the_table_sorts_and_chooses_columns(opened):
    def column(number):
        return [cell.text for cell in opened.find_elements("css selector", f"#table td:nth-child({number})")]

    def titles():
        return [cell.text for cell in opened.find_elements("css selector", "#table th")]

    assert titles() == ["objective", "finished", "recovery", "validity"]
    assert column(1) == ["grpo", "ips_grpo", " ".join(HOSTILE.split())]
    assert column(3)[0] == "0.210\n[0.185, 0.235]\nbefore 0.100"
    recovery = "#table th:nth-child(3)"
    for direction, order in (("descending", [0.61, 0.4, 0.21]), ("ascending", [0.21, 0.4, 0.61])):
        tick(opened, f"{recovery} button")
        assert opened.find_element("css selector", recovery).get_attribute("aria-sort") == direction
        assert [float(text.split()[0]) for text in column(3)] == order
    tick(opened, "#table th:nth-child(1) button")
    assert column(1)[1:] == ["grpo", "ips_grpo"]
    tick(opened, "#columns .chip:nth-child(2) input")
    assert titles() == ["objective", "finished", "validity"]


@pytest.mark.slow
def test_outcomes_follow_the_slider(opened):
    def at(place):
        move = "const step = document.getElementById('step'); step.value = arguments[0]; step.oninput()"
        opened.execute_script(move, place)
        return drawn(opened, "ranks")["grpo"]

    assert opened.find_element("id", "step-shown").text == "6"
    assert drawn(opened, "ranks")["grpo"] == pytest.approx([0.9, 0.1])
    assert at(0) == pytest.approx([0.5, 0.1])
    assert opened.find_element("id", "ranks-caption").text == "Shares by rank at step 0"
    assert at(1) == pytest.approx([0.7, 0.1])
    bands = drawn(opened, "spread")
    assert bands["rank 1"] == pytest.approx([0.5, 0.7, 0.9])
    assert bands["rank 2"] == pytest.approx([0.1] * 3)
    assert bands["all others"] == [0, 0, 0]


@pytest.mark.slow
def test_answers_are_shown_as_they_are(opened):
    def texts(side):
        return opened.execute_script(
            "return [...document.querySelectorAll(`#${arguments[0]} pre`)].map(text => text.textContent)", side
        )

    choose(opened, "run", "ips_grpo, seed 1")
    assert (texts("before"), texts("after")) == (["y", "x OR y"], ["y", "x OR y"])
    assert "2 times" in opened.find_element("id", "before").text
    assert "2 times" not in opened.find_element("id", "after").text
    choose(opened, "prompt", "1: prompt 1")
    assert opened.find_element("id", "question").text == "prompt 1"
    opened.execute_script(
        "const run = document.getElementById('run'); run.value = 6; run.dispatchEvent(new Event('change'))"
    )
    assert texts("after") == ["y", HOSTILE]
    assert opened.find_element("id", "question").text == "prompt 1"

    # Nothing that a run has said has become an element.
    elements = "return document.querySelectorAll('main img, main b, main script').length"
    assert opened.execute_script(elements) == 0
    assert opened.execute_script("return document.querySelector('#warnings td:nth-child(2)').textContent") == HOSTILE
    assert opened.execute_script("return document.querySelector('h1').textContent") == HOSTILE


@pytest.mark.slow
def test_tasks_and_settings(opened):
    opened.find_element("css selector", "#settings summary").click()
    assert "training.steps" in opened.find_element("id", "settings").text
    again = opened.find_element("id", "again").text
    assert "git checkout 0123456789abcdef  # with changes that were not committed" in again
    choose(opened, "task", "Countdown")
    assert set(drawn(opened)) == {"grpo"}
    assert len(opened.find_elements("css selector", "#table tbody tr")) == 1
    assert "numbers" in opened.find_element("id", "settings").get_attribute("textContent")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_and_can_be_read(opened, scheme, width):
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        # Only tables may be wider, and scroll by themselves. Plots take their time.
        wait_for(opened, f"document.documentElement.scrollWidth <= {width}")
        ink = {"light": "rgb(29, 34, 38)", "dark": "rgb(230, 232, 234)"}[scheme]
        assert opened.find_element("css selector", "#curve .xtitle").value_of_css_property("fill") == ink
        written = opened.find_element("tag name", "body").value_of_css_property("color")
        assert written.startswith(ink.replace("rgb", "rgba")[:-1])
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.slow
def test_a_folder_of_experiments_alone(browser, tmp_path):
    path = write_run(tmp_path / "run")
    (path / "metrics.jsonl").unlink()
    browser.get(write_report(tmp_path, tmp_path / "report.html").as_uri())
    assert browser.get_log("browser") == []
    assert [link.text for link in browser.find_elements("css selector", "nav a")] == [
        "Results",
        "Figures",
        "Curves",
        "Outcomes",
        "Answers before and after",
        "Warnings",
        "Claims",
        "Settings",
        "How to run it again",
    ]
    curves = browser.find_element("id", "curves")
    assert curves.text.splitlines() == ["Curves", "No run here has metrics.jsonl, which training writes step by step."]
