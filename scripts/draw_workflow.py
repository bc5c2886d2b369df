"""Draw docs/images/workflow.svg: the terminal during a real run of examples/media_pipeline, and after it.

    python scripts/draw_workflow.py

The workflow runs in a temporary folder. The picture shows one frame of the live view, from the moment when two scenes
are being drawn, and the summary that the run ends with.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tempfile
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from bursar.workflow import read
from bursar.workflow.live import Live

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "workflow.svg"
WIDTH, FRAME_HEIGHT = 116, 20
MOMENT_S = 0.15  # into the second pair of scenes


class Frame(Live):
    """A live view that keeps the first frame in which the second pair of scenes is under way."""

    frame: RenderableType | None = None

    def tick(self, run):
        second = [run.steps[name] for name in ("images-2", "images-3")]
        running = all(step.state == "running" for step in second)
        if self.frame is None and running and run.now() - max(step.began for step in second) > MOMENT_S:
            self.frame = self.draw(run)
            self.taken.print(self.frame)
        super().tick(run)


def main() -> None:
    console = Console(file=io.StringIO(), record=True, width=WIDTH, height=FRAME_HEIGHT, force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Path(folder) / "media_pipeline"
        shutil.copytree(ROOT / "examples" / "media_pipeline", pipeline)
        workflow = read(pipeline / "workflow.toml")
        view = Frame(Console(file=io.StringIO(), width=WIDTH, height=FRAME_HEIGHT, force_terminal=True))
        view.taken = console
        console.print(Text.assemble(("$ ", "bold green"), "bursar run examples/media_pipeline/workflow.toml"))
        console.print()
        with contextlib.chdir(pipeline):
            report = workflow.run(listener=view)
        view.close()
    if not report.ok or view.frame is None:
        raise SystemExit(f"the run gives no picture:\n{report}")
    console.print()
    console.print(Text("… and when all tasks are done:", "dim italic"))
    console.print()
    console.print(Text(str(report), "green"))
    picture = console.export_svg(title="bursar run", unique_id="bursar-run")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # fonts from the network
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
