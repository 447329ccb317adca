"""Runs a scenario and draws the command's output as an SVG.

python docs/picture.py                          the main job, into run.svg
python docs/picture.py NAME --out FILE --set data.limit=240
"""

import argparse
import contextlib
import io
import re
import shlex
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tacit.scenarios.console import printing
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.reporting import printed
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.runner import carry_out

WIDTH = 110
"""The least number of columns; a longer line of prose, which is never wrapped, widens the picture."""

FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Draw what a run prints.")
    parser.add_argument("scenario", nargs="?", default="xclp-digits")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path("run.svg"))
    return parser.parse_args()


def draw(command: str, loaded: Loaded, out: Path | None = None) -> str:
    """The SVG of one run, whose folder is `out`, else one in the current folder. Raises ValueError if it fails.

    The picture is self-contained: the fonts that rich would fetch from the web are taken out.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text(f"$ {command}", style="bold"))
    printing.print_lines(console, [f"{loaded.scenario.title or loaded.name}   (seed {loaded.scenario.seed})"])
    printing.print_lines(console, (f"WARNING  {line}" for line in cautions(loaded.scenario)))
    result = carry_out(loaded.scenario, loaded.name, out=out)
    if result.outcome not in ("completed", "aborted") or result.unmet:
        raise ValueError("\n".join([f"{result.outcome}: {result.reason}", *result.unmet]))
    printed.print_result(console, result, byte_rows(result.folder), loaded.scenario.network.topology)
    console.width = max(WIDTH, *map(len, console.export_text(clear=False).splitlines()))
    return FONTS.sub("", console.export_svg(title="tacit", unique_id="tacit"))


def main() -> None:
    """Draw the picture, with the run's folder in a temporary one."""
    given = arguments()
    out = given.out.absolute()
    loaded = read(given.scenario, given.changes)
    changes = (word for text in given.changes for word in ("--set", text))
    command = shlex.join(["tacit", "run", given.scenario, *changes])
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        picture = draw(command, loaded)
    out.write_text(picture, encoding="utf-8")
    print(out, file=sys.stderr)


if __name__ == "__main__":  # the workers of the run's pool import this file
    main()
