"""The page in a real browser: Chromium without a window."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pages import hostile

import solvent
from effort import first

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")

from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

EXAMPLES = Path(solvent.examples.__file__).parent
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
#: Bytes of the largest page.
LARGEST = 5_000_000
#: Seconds to wait for something that takes a moment.
PATIENCE = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="Chromium and its driver are not installed: apt-get install chromium chromium-driver",
    ),
]

OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


#: Without motion, nothing moves away while it is clicked.
CALM = {"name": "prefers-reduced-motion", "value": "reduce"}


class Browser:
    """Chromium with one page."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}, CALM]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get_log("browser")  # of the page before
        self.driver.get(path.as_uri())
        self.wait(lambda: self.script("return document.documentElement.dataset.ready") == "yes")

    def wait(self, done: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, "the page did not react"
            time.sleep(0.05)

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def find(self, key: str) -> Any:
        return self.driver.find_element(By.ID, key)

    def text(self, key: str) -> str:
        return str(self.find(key).text)

    def messages(self) -> list[Any]:
        return list(self.driver.get_log("browser"))

    def overflows(self) -> bool:
        """Return whether the page can be scrolled sideways."""
        return bool(self.script("const root = document.documentElement; return root.scrollWidth > root.clientWidth"))

    def requests(self) -> list[Any]:
        return list(self.script("return performance.getEntriesByType('resource').map((entry) => entry.name)"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for option in (*OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            yield Browser(driver)
        finally:
            driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that returns the page of an example, made once."""
    folder = tmp_path_factory.mktemp("pages")

    def make(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            model = solvent.load_model(EXAMPLES / f"{name}.yaml")
            options: dict[str, Any] = {"gap": 0.01} if model.has_continuous_costs else {}
            solvent.solve(model, **options).report(path, episodes=1000, time_limit=300)
        return path

    return make


@pytest.mark.parametrize("name", first(3, NAMES))
def test_every_example_on_a_desktop_and_on_a_phone(name: str, browser: Browser, page: Callable[[str], Path]) -> None:
    path = page(name)
    assert path.stat().st_size < LARGEST
    for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
        browser.open(path, width=width, dark=dark)
        assert browser.messages() == []
        assert browser.requests() == []
        assert not browser.overflows()
        charts = browser.script("return [...document.querySelectorAll('.chart')].map((chart) => chart.id)")
        empty = browser.script("return [...document.querySelectorAll('.chart:not(:has(svg path))')].map((c) => c.id)")
        assert len(charts) >= 4
        assert empty == []


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_visible_on_a_phone(name: str, browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page(name), width=390)
    for box in ("plan-rows", "episode-rows"):
        ends = browser.script(
            "return [...document.querySelectorAll(`#${arguments[0]} .action`)].map((cell) => {"
            " const box = cell.closest('.scroll').getBoundingClientRect(), it = cell.getBoundingClientRect();"
            " return [it.left - box.left, box.right - it.right, it.width]; })",
            box,
        )
        assert ends
        assert all(left >= 0 and right >= 0 and width > 10 for left, right, width in ends)
        table = "const box = document.getElementById(arguments[0]).closest('.scroll');"
        assert browser.script(f"{table} return box.scrollWidth - box.clientWidth", box) == 0
    step, action = (f"#plan-rows tr:first-child {part}" for part in ("th", ".action"))
    tops = [
        browser.script("return document.querySelector(arguments[0]).getBoundingClientRect().top", at)
        for at in (step, action)
    ]
    assert abs(tops[0] - tops[1]) < 5  # on the first line of the row


def test_hatches_of_actions_are_drawn(browser: Browser, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=12, start="s", resources=["fuel"], budget={"fuel": 60})
    for i in range(12):
        b.add("s", f"go {i}", reward=1 + (i + 1) ** 0.5, outcomes=[(1, "s", {"fuel": i})], steps=[i, (i + 5) % 12])
    solvent.solve(b.build()).report(tmp_path / "page.html", episodes=100)
    browser.open(tmp_path / "page.html")
    fills = browser.script(
        "return [...document.querySelectorAll('#plan-chart .mark-rect path')].map((cell) => cell.getAttribute('fill'))"
    )
    used = {fill for fill in fills if fill.startswith("url(#hatch-")}
    assert used
    assert {fill for fill in fills if fill.startswith("#")}
    for fill in used:
        assert browser.find(fill.removeprefix("url(#").removesuffix(")")).tag_name == "pattern"
    assert browser.messages() == []


def test_the_slider_shows_the_values_of_the_curve(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    curve = solvent.frontier(model, "fuel", max_budget=61)
    assert browser.text("budget-amount") == "30"
    slider = browser.find("budget-slider")
    seen = set()
    for key, times in ((Keys.ARROW_RIGHT, 3), (Keys.ARROW_LEFT, 12), (Keys.END, 1), (Keys.HOME, 1)):
        for _ in range(times):
            slider.send_keys(key)
            budget = browser.text("budget-amount")
            seen.add(budget)
            assert float(browser.text("budget-value")) == pytest.approx(curve.value(budget), rel=1e-9)
            assert float(browser.text("budget-marginal")) == pytest.approx(curve.marginal(budget), rel=1e-9)
            assert slider.get_attribute("aria-valuetext") == f"{budget}, value {browser.text('budget-value')}"
            policy = curve.policy(budget)
            assert browser.text("budget-first") == policy.action(0, "depot", 0)
            assert browser.text("plan-for") == (
                f"Shown: the plan for a budget of {budget} fuel{'' if budget == '30' else ', as chosen above'}."
            )
            assert browser.text("plan-count") == f"{len(policy.table())} of {len(policy.table())} rows"
    assert {"33", "21", "60", "0"} <= seen
    browser.find("budget-reset").click()
    assert browser.text("budget-amount") == "30"
    assert not browser.find("budget-reset").is_enabled()
    assert browser.messages() == []


def test_the_mark_of_the_chart_follows_the_slider(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    place = "return document.querySelector('#value-chart .mark-symbol path').getBoundingClientRect().x"
    before = browser.script(place)
    browser.find("budget-slider").send_keys(Keys.END)
    browser.wait(lambda: browser.script(place) > before + 100)


def test_a_click_on_the_curve_chooses_a_budget(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    chart = browser.find("value-chart")
    browser.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    webdriver.ActionChains(browser.driver).move_to_element_with_offset(chart, 200, 0).click().perform()
    browser.wait(lambda: browser.text("budget-amount") != "30")
    assert 40 <= int(browser.text("budget-amount")) <= 50


def test_another_resource_can_be_chosen(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("drone"))
    model = solvent.load_model(EXAMPLES / "drone.yaml")
    curve = solvent.frontier(model, "risk", budget={"battery": solvent.Budget(upper=20, lower=0)}, max_budget=3)
    assert browser.text("budget-label") == "Budget of battery"
    browser.find("curve-resource").send_keys("risk")
    browser.wait(lambda: browser.text("budget-label") == "Budget of risk")
    slider = browser.find("budget-slider")
    for _ in range(3):
        slider.send_keys(Keys.ARROW_LEFT)
        budget = browser.text("budget-amount")
        assert Fraction(budget) < 1
        assert float(browser.text("budget-value")) == pytest.approx(curve.value(budget), abs=1e-9)
    browser.find("spending-resource").send_keys("risk")
    browser.wait(lambda: "risk spent" in browser.find("spending-chart").get_attribute("innerHTML"))
    assert browser.messages() == []


def test_search_filters_the_plan(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    rows = solvent.solve(solvent.load_model(EXAMPLES / "delivery-van.yaml")).policy.table()
    assert browser.text("plan-count") == f"{len(rows)} of {len(rows)} rows"
    search = browser.find("plan-search")

    def lines() -> list[str]:
        return [line.text for line in browser.driver.find_elements(By.CSS_SELECTOR, "#plan-rows tr")]

    search.send_keys("refuel")
    expected = [row for row in rows if row.action_text == "refuel"]
    assert browser.text("plan-count") == f"{len(expected)} of {len(rows)} rows"
    assert len(lines()) == len(expected)
    assert all("refuel" in line for line in lines())
    search.clear()
    search.send_keys("step 3 TOWN")
    expected = [row for row in rows if row.step == 3 and "town" in f"{row.state} {row.action_text}"]
    assert len(lines()) == len(expected) > 0
    search.clear()
    search.send_keys("nothing like this")
    assert lines() == []
    assert browser.text("plan-count") == f"0 of {len(rows)} rows"


def test_the_state_of_the_heat_map_can_be_chosen(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    browser.find("plan-state").send_keys("station")
    browser.wait(lambda: "refuel" in browser.text("plan-legend"))
    cells = len(browser.driver.find_elements(By.CSS_SELECTOR, "#plan-chart .mark-rect path"))
    rows = solvent.solve(solvent.load_model(EXAMPLES / "delivery-van.yaml")).policy.table(state="station")
    assert cells == len(rows)


def test_episodes_are_stepped_through(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    assert browser.text("episode-text").startswith("Step 0: in depot, 30 fuel remaining.")
    browser.find("episode-next").click()
    assert browser.text("episode-text").startswith("Step 1: in ")
    player = browser.find("player")
    player.send_keys(Keys.ARROW_RIGHT)
    assert browser.text("episode-text").startswith("Step 2: in ")
    player.send_keys(Keys.ARROW_LEFT)
    player.send_keys(Keys.ARROW_LEFT)
    assert browser.text("episode-text").startswith("Step 0: in ")
    assert not browser.find("episode-back").is_enabled()
    player.send_keys(Keys.END)
    assert browser.text("episode-text").startswith("The end, after ")
    assert not browser.find("episode-next").is_enabled()
    browser.find("episode").send_keys("Episode 2")
    browser.wait(lambda: browser.text("episode-text").startswith("Step 0: "))
    current = browser.driver.find_elements(By.CSS_SELECTOR, "#episode-rows [aria-current]")
    assert [line.text.split()[0] for line in current] == ["0"]


def test_the_map_has_an_arrow_or_a_letter_for_each_decision(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("robot"))
    policy = solvent.solve(solvent.load_model(EXAMPLES / "robot.yaml")).policy
    signs = "return document.querySelectorAll('#map-chart .mark-symbol path').length"
    moves = ("north", "east", "south", "west")
    slider = browser.find("map-step")
    for step in range(4):
        slider.send_keys(Keys.ARROW_RIGHT)
        assert browser.text("map-step-text") == f"step {step}"
        best: dict[Any, Any] = {}
        for row in policy.table(step=step):  # of several rows, the one with the most that remains
            if row.state not in best or (row.remaining["battery"][1] or 99) > (
                best[row.state].remaining["battery"][1] or 99
            ):
                best[row.state] = row
        expected = sum(row.action_text in moves for row in best.values())
        browser.wait(lambda expected=expected: browser.script(signs) == expected)


def test_the_map_follows_an_episode(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("robot"))
    signs = "return [...document.querySelectorAll('#episode-map .mark-symbol path')].map((p) => p.outerHTML)"
    (before,) = browser.script(signs)
    browser.find("episode-next").click()
    browser.wait(lambda: browser.script(signs) not in ([], [before]))
    assert browser.messages() == []


def test_everything_can_be_reached_with_the_keyboard(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"))
    focused = "const it = document.activeElement; return [it.id || it.textContent, getComputedStyle(it).outlineStyle]"
    seen, hidden = [], []
    while browser.script("return document.activeElement !== document.body") or not seen:
        webdriver.ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        name, outline = browser.script(focused)
        seen.append(name)
        hidden += [name] if outline == "none" else []
        assert len(seen) < 200
    assert seen[0] == "Skip to the answer"
    for key in ("budget-slider", "plan-state", "plan-search", "episode", "episode-next", "player"):
        assert key in seen, key
    assert hidden == seen[-1:]  # the body, at the end


def test_dark_mode_reaches_the_charts(browser: Browser, page: Callable[[str], Path]) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    label = "return getComputedStyle(document.querySelector('#value-chart .role-axis-label text')).fill"

    def brightness(color: str) -> int:
        return sum(int(part) for part in color[color.index("(") + 1 : -1].split(",")[:3])

    browser.open(page("delivery-van"), dark=False)
    assert brightness(browser.script(ground)) > 600 > 400 > brightness(browser.script(label))
    browser.open(page("delivery-van"), dark=True)
    assert brightness(browser.script(ground)) < 150 < 400 < brightness(browser.script(label))


def test_a_page_prints_in_dark_mode_as_in_light_mode(browser: Browser, page: Callable[[str], Path]) -> None:
    browser.open(page("delivery-van"), dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    assert browser.script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    label = "return getComputedStyle(document.querySelector('#value-chart .role-axis-label text')).fill"
    assert browser.script(label) == "rgb(68, 68, 68)"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_names_cannot_run_code(browser: Browser, tmp_path: Path) -> None:
    solvent.solve(hostile()).report(tmp_path / "page.html", episodes=100)
    browser.open(tmp_path / "page.html", width=390)
    assert browser.script("return window.hacked") is None
    assert browser.script("return document.querySelectorAll('img, iframe, object, embed').length") == 0
    for key in ("plan-state", "curve-resource", "spending-resource"):
        browser.find(key).send_keys(Keys.ARROW_DOWN)
    browser.find("budget-slider").send_keys(Keys.ARROW_RIGHT)
    browser.find("episode-next").click()
    assert "<img src=x" in browser.text("episode-text")
    cell = browser.driver.find_element(By.CSS_SELECTOR, "#plan-chart .mark-rect path")
    browser.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", cell)
    webdriver.ActionChains(browser.driver).move_to_element(cell).perform()
    browser.wait(lambda: browser.script("return document.querySelector('#vg-tooltip-element.visible') !== null"))
    assert browser.script("return document.querySelectorAll('img').length") == 0
    assert browser.script("return window.hacked") is None
    assert browser.messages() == []
    assert not browser.overflows()


def test_a_page_without_a_plan(browser: Browser, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["fuel"])
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": 2})])
    solvent.solve(b.build(), budget={"fuel": 3}).report(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.text("budget-value") == "infeasible"
    assert browser.text("budget-rise") == "feasible from 4, with value 2"
    assert browser.text("plan-for") == "No plan keeps a budget of 3 fuel. Shown: the plan for a budget of 4 fuel."
    browser.find("budget-slider").send_keys(Keys.END)
    assert browser.text("budget-value") == "2"
    assert browser.messages() == []


def test_values_are_read_aloud_as_they_are_shown(browser: Browser, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=3, start="s", resources=["fuel"], budget=3)
    b.add("s", "go", reward=0.1, outcomes=[(1, "s", {"fuel": 1})])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    solution = solvent.solve(b.build())
    assert len(repr(solution.value)) > 10  # 0.30000000000000004
    solution.report(tmp_path / "page.html", episodes=10)
    browser.open(tmp_path / "page.html")
    assert browser.find("budget-slider").get_attribute("aria-valuetext") == "3, value 0.3"


def test_an_axis_of_one_amount_shows_only_it(browser: Browser, tmp_path: Path) -> None:
    b = solvent.CMDP.builder(
        horizon=2, start="s", resources=["fuel"], budget={"fuel": solvent.Budget(upper=0, lower=0)}
    )
    b.add("s", "go", reward=1, outcomes=[(1, "s", {"fuel": "2/5"})])
    b.add("s", "rest", outcomes=[(1, "s", 0)])
    solvent.solve(b.build()).report(tmp_path / "page.html", episodes=10)
    browser.open(tmp_path / "page.html")
    labels = browser.script(
        "return [...document.querySelectorAll('#plan-chart .role-axis')].map((axis) =>"
        " [...axis.querySelectorAll('.role-axis-label text')].map((label) => label.textContent))"
    )
    assert ["0"] in labels
    assert browser.messages() == []
