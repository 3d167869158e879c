"""Logging: under the logger "solvent", silent unless the application configures it."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.core.logs import get_logger

TALK = """
import logging
from solvent.core.logs import get_logger
{configure}
for level in ("debug", "info", "warning", "error"):
    getattr(get_logger("solvent.core.limits"), level)("%s from solvent", level)
"""


def shown(configure: str) -> str:
    code = TALK.format(configure=configure)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_it_is_silent_by_default() -> None:
    assert shown("") == ""


def test_the_application_decides_what_is_shown() -> None:
    told = shown("logging.basicConfig(level=logging.DEBUG, format='%(name)s %(levelname)s %(message)s')")
    assert told.splitlines() == [
        "solvent.core DEBUG debug from solvent",
        "solvent.core INFO info from solvent",
        "solvent.core WARNING warning from solvent",
        "solvent.core ERROR error from solvent",
    ]


def test_the_package_has_one_handler_that_does_nothing_and_sets_no_level() -> None:
    logger = logging.getLogger("solvent")
    assert [type(each) for each in logger.handlers] == [logging.NullHandler]
    assert logger.level == logging.NOTSET
    assert get_logger("solvent.policy.files").parent is logger
    assert get_logger("solvent") is logger


def reserve_too_much() -> None:
    with ResourceMonitor(bytes=1000) as monitor:
        monitor.reserve(2000, "this")


def test_a_limit_that_is_reached_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "solvent"), pytest.raises(LimitReached):
        reserve_too_much()
    assert caplog.record_tuples == [
        (
            "solvent.core",
            logging.INFO,
            "limit reached: this would need 0.002 MB, more than the memory limit of 0.001 MB",
        )
    ]
