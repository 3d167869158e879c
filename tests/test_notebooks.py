"""The notebooks of the examples run from top to bottom, and objects and progress are shown in a real kernel."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["learning", "planning", "several_resources"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept_and_claims_are_checked(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert notebook["cells"][0]["cell_type"] == "markdown"
    tree = ast.parse("\n".join("".join(cell["source"]) for cell in code))
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(tree)) >= 10


def run_cells(notebook: Any, folder: Path) -> list[dict[str, Any]]:
    """Execute a notebook, with its outputs, and return the contents of all messages about displays."""
    nbclient = pytest.importorskip("nbclient")

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        seen: list[dict[str, Any]]

        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                self.seen.append(msg["content"]["data"])
            return super().process_message(msg, cell, cell_index)

    client = Client(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.seen = []
    client.execute()
    return client.seen


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of packages between here and the kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    run_cells(notebook, FOLDER)
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in shown if output.output_type == "error" or output.get("name") == "stderr"]
    data = [output.data for output in shown if "data" in output]
    assert any("text/html" in each and 'class="solvent"' in each["text/html"] for each in data)
    if path.stem != "learning":
        assert any("image/png" in each for each in data)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_kernel_shows_a_progress_bar(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    source = """
import time
from solvent.core.progress import open_progress
with open_progress(True, "compiling <1>") as sink:
    time.sleep(1.5)
    for i in range(20):
        sink.report("forward", i, 20, {"nodes": 100 * i})
        time.sleep(0.05)
    sink.message("round 1 of <2>")
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    seen = run_cells(notebook, tmp_path)
    bars = [each["text/html"] for each in seen if "text/html" in each]
    assert "<progress style" in bars[0]
    assert "compiling &lt;1&gt;..." in bars[0]
    assert any("max='20'" in bar and "forward: step" in bar for bar in bars)
    assert bars[-1] == ""
    # what stays is the message, in a display of its own
    assert [output.data.get("text/plain") for output in notebook.cells[0].outputs] == ["", "round 1 of <2>"]
