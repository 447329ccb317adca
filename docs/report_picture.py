"""Runs a scenario and takes a picture of its report, as a window of a browser shows it. Needs Chromium.

python docs/report_picture.py                          the main job, into docs/report.png
python docs/report_picture.py NAME --out FILE --set data.limit=240
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.report import report
from tacit.scenarios.running.runner import carry_out

SIZE = (1240, 1560)

COLOURS = 256
"""A page has few, and a picture with a palette is small."""

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=5000",
)  # fmt: skip


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Take a picture of a run's report.")
    parser.add_argument("scenario", nargs="?", default="xclp-digits")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("report.png"))
    return parser.parse_args()


def take(page: Path, out: Path, folder: Path, trace: str) -> None:
    """Write the picture of `page`, of the run with this `trace` hash; `folder` is for the browser alone.

    Raises OSError and CalledProcessError.
    """
    program = shutil.which("chromium")
    if program is None:
        raise OSError("chromium is not installed; on Debian and Ubuntu: apt install chromium")
    picture = folder / "page.png"
    places = (f"--user-data-dir={folder / 'profile'}", f"--screenshot={picture}", f"--window-size={SIZE[0]},{SIZE[1]}")
    subprocess.run([program, *_FLAGS, *places, page.as_uri()], check=True, capture_output=True, timeout=120)
    with Image.open(picture) as taken:
        taken.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True, pnginfo=noted(trace))


def noted(trace: str) -> PngInfo:
    """The text that a picture carries."""
    found = PngInfo()
    found.add_text("trace", trace)
    return found


def trace_of(picture: Path) -> str:
    """The trace hash of the run whose report the picture shows; "" if it does not say."""
    try:
        with Image.open(picture) as taken:
            return str(taken.info.get("trace", ""))
    except OSError:
        return ""


def main() -> None:
    """Run the scenario, with its folder in a temporary one, and take the picture."""
    given = arguments()
    loaded = read(given.scenario, given.changes)
    out = given.out.absolute()
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with folder as name, contextlib.chdir(name):  # for paths on the page that are short
        result = carry_out(loaded.scenario, loaded.name)
        if result.outcome not in ("completed", "aborted") or result.unmet:
            sys.exit("\n".join([f"error: {result.outcome}: {result.reason}", *result.unmet]))
        page = Path(name) / "report.html"
        page.write_text(report([result.folder]), encoding="utf-8")
        take(page, out, Path(name), result.trace_hash)
    print(f"picture   {given.out} ({out.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
