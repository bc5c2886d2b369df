"""What the browser host refuses outside a browser. The other tests are in tests/browser."""

from types import SimpleNamespace

import pytest

import bursar
from bursar.browser import run
from bursar.hosts import browser


async def main():
    pass


def api(**changes):
    return SimpleNamespace(**{name: lambda *_: 0 for name in browser.NEEDED} | changes)


def test_a_host_says_how_it_hands_off():
    assert browser.BrowserHost(api()).handoff_by == "setTimeout"
    host = browser.BrowserHost(api(MessageChannel=object()))
    assert (host.handoff_by, host.name) == ("MessageChannel", "browser")


@pytest.mark.parametrize("name", browser.NEEDED)
def test_an_api_without_a_function_is_refused_by_name(name):
    with pytest.raises(bursar.HostMisuse, match=name):
        browser.BrowserHost(api(**{name: None}))


def test_outside_pyodide_everything_says_so():
    with pytest.raises(bursar.HostMisuse, match="only in Pyodide"):
        browser.BrowserHost.of_page()
    with pytest.raises(bursar.HostMisuse, match="only in Pyodide"):
        run(main)
    with pytest.raises(bursar.HostMisuse, match="only in Pyodide"):
        browser.from_promise(object())
