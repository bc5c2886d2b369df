"""The figures of the documents come from docs/benchmarks.json: neither the plot nor the table is typed by hand."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("figures", ROOT / "scripts" / "figures.py")
assert SPEC is not None
assert SPEC.loader is not None
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)


@pytest.fixture
def data():
    return json.loads(figures.DATA.read_text(encoding="utf-8"))


def test_the_table_is_that_of_the_data(data):
    page = figures.PAGE.read_text(encoding="utf-8")
    assert figures.with_table(page, figures.table(data)) == page


def test_the_plot_is_that_of_the_data(data):
    assert figures.PLOT.read_text(encoding="utf-8") == figures.plot(data)


def test_another_figure_is_noticed(data):
    data["rows"][0]["best"] *= 2
    page = figures.PAGE.read_text(encoding="utf-8")
    assert figures.with_table(page, figures.table(data)) != page
    assert figures.PLOT.read_text(encoding="utf-8") != figures.plot(data)


def test_the_readme_is_short_and_shows_the_plot_and_the_workflow():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    assert "docs/images/benchmarks.svg" in readme
    assert "docs/images/workflow.svg" in readme


def test_the_pictures_fetch_nothing():
    for picture in (ROOT / "docs" / "images").glob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        assert "url(" not in text.replace("url(#", "")
        assert "href" not in text


def test_an_interrupted_run_is_not_published():
    with pytest.raises(SystemExit):
        figures.keep({"complete": False, "rows": []}, "2026-01-01")
