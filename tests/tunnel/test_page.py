"""The page of the wind tunnel in a browser, and its command."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import chromium
from tests.chromium import wait_for
from tests.hangs import HANGS, wait_until

ROOT = Path(__file__).parents[2]
ANNOTATIONS = "document.querySelector('#triangle .js-plotly-plot').layout.annotations.map(each => each.text)"
STATE = "?objective=grpo&rewards=1,1,0.5&group_size=4"


@pytest.mark.slow
def test_a_port_in_use_is_refused():
    pytest.importorskip("dash", reason='the page is made by Dash: pip install -e ".[tunnel]"')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = [sys.executable, "-m", "ipsrl.tunnel", "--noopen", f"--port={port}"]
        said = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert said.stderr == f"error: port {port} is in use: choose another by --port, or any by --port=0\n"


@pytest.fixture(scope="module")
def address():
    """The address of a server that ends by Ctrl-C, and prints nothing about requests."""
    pytest.importorskip("dash", reason='the page is made by Dash: pip install -e ".[tunnel]"')
    arguments = [sys.executable, "-m", "ipsrl.tunnel", "--port=0", "--noopen"]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        yield line.removeprefix("the wind tunnel: ").strip()
        server.send_signal(signal.SIGINT)
        out, errors = server.communicate(timeout=HANGS)
    assert (server.returncode, out, errors) == (0, "", "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = chromium.started(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.quit()


@pytest.fixture
def opened(browser, address):
    """The page of a state, drawn; nothing may come from elsewhere, and nothing may go wrong."""
    browser.get(address + STATE)
    wait_for(browser, "document.getElementById('word')")
    # The verdict may be there before the picture is drawn.
    wait_until(lambda: "rest point: repels" in drawn(browser, "triangle"))
    yield browser
    names = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert names
    assert all(name.startswith((address, "data:", "blob:")) for name in names)
    assert browser.get_log("browser") == []


def text(browser, name):
    return browser.find_element("id", name).text


def drawn(browser, name):
    """Traces of a figure: name -> heights."""
    found = "document.querySelector(`#${arguments[0]} .js-plotly-plot`).data.map(t => [t.name, [...t.y]])"
    return dict(browser.execute_script(f"return {found}", name))


def type_objective(browser, objective):
    from selenium.webdriver.common.keys import Keys

    browser.find_element("id", "objective").send_keys(Keys.CONTROL, "a", Keys.NULL, objective, Keys.ENTER)


@pytest.mark.slow
def test_a_link_opens_its_state_with_rest_points_and_verdict(opened):
    assert text(opened, "verdict").startswith(
        "grpo, groups of 4: collapses, of two equally good outcomes, one is lost. Evidence: "
    )
    assert len(drawn(opened, "triangle")["rest point: repels"]) == 1
    ends = {name: heights[-1] for name, heights in drawn(opened, "curves").items()}
    assert [name.endswith(("t^-0.5", "t^-1")) for name in ends] == [False, True, True]
    assert sum(ends.values()) == pytest.approx(1)


@pytest.mark.slow
def test_a_dragged_slider_moves_the_picture(opened):
    from selenium.webdriver.common.keys import Keys

    before = drawn(opened, "curves")
    opened.find_element("css selector", "[role=slider]").send_keys(Keys.ARROW_LEFT)
    href = wait_for(opened, "/rewards=0.9/.test(document.getElementById('link').href) && link.href")
    assert "rewards=0.999,1.0,0.5" in href
    wait_until(lambda: list(drawn(opened, "curves").values()) != list(before.values()))


@pytest.mark.slow
def test_a_drag_draws_one_picture_after_the_other_and_the_last(opened):
    # What asks for a picture has an input of this name.
    opened.execute_script("""
        const send = window.fetch;
        let waiting = 0;
        window.most = 0;
        window.fetch = async (...request) => {
            if (!String(request[1]?.body).includes('"id":"asked"')) return send(...request);
            window.most = Math.max(window.most, ++waiting);
            try { return await send(...request); } finally { waiting -= 1; }
        };""")
    drag = """const [least, most, done] = arguments;
        (function move(reward) {
            if (reward > most) return done();
            dash_clientside.set_props("reward2", {value: reward / 1000});
            setTimeout(move, 10, reward + 1);
        })(least)"""
    opened.execute_async_script(drag, 300, 399)
    wait_for(opened, "/rewards=1.0,0.399,/.test(document.getElementById('link').href)")
    wait_until(lambda: "<b>2</b>, reward 0.399" in opened.execute_script(f"return {ANNOTATIONS}"))
    assert opened.execute_script("return window.most") == 1


@pytest.mark.slow
def test_no_button_sends_a_figure_elsewhere(opened):
    titles = "[...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)"
    buttons = opened.execute_script(f"return {titles}")
    assert buttons.count("Download plot as a PNG") == 2
    assert not [button for button in buttons if "Share" in button]


@pytest.mark.slow
def test_a_box_that_is_emptied_is_named(opened):
    from selenium.webdriver.common.keys import Keys

    box = opened.find_elements("css selector", ".dash-range-slider-input")[1]
    box.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE)
    wait_for(opened, "document.getElementById('problem').textContent == 'reward2 is empty, it must have a value'")
    box.send_keys("0.5", Keys.TAB)
    wait_for(opened, "document.getElementById('problem').textContent == ''")
    wait_for(opened, "/rewards=1.0,0.5,/.test(document.getElementById('link').href)")


@pytest.mark.slow
def test_bad_input_is_one_sentence_and_keeps_the_picture(opened):
    before = drawn(opened, "triangle")
    for objective, message in (
        ("grpp", "unknown objective 'grpp'"),
        ("progrpo", "the objective needs prompt_log_probs"),
    ):
        type_objective(opened, objective)
        wait_for(opened, f"document.getElementById('problem').textContent.startsWith(`{message}`)")
    assert drawn(opened, "triangle") == before
    type_objective(opened, "rloo")
    wait_for(opened, "document.getElementById('problem').textContent == ''")
    wait_for(opened, "document.getElementById('verdict').textContent.startsWith('rloo, ')")


@pytest.mark.slow
def test_a_wrong_link_says_so_and_shows_the_default(browser, address):
    browser.get(f"{address}?group_size=300")
    wait_for(browser, "document.getElementById('link')?.href.includes('ips_grpo')")
    assert text(browser, "link_problem") == "group_size is 300, it must lie between 1 and 24"
    assert re.search(r"group_size=8\b", browser.find_element("id", "link").get_attribute("href"))
