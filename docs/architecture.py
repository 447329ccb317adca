"""Draws the packages and their folders, read from the tree, and the path of one message.

python docs/architecture.py > architecture.svg

Only Python's own library is needed. The picture is plain SVG, whose colours follow the viewer's light or dark scheme.
"""

from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ROOMS = {
    "sim": "simulated world: clock, links, faults, costs, bytes",
    "parties": "clients and server: data, learning, mailbox",
    "protocols": "algorithms: messages, steps, cryptography",
    "scenarios": "from file to report: running, chaos, commands",
    "benchmarks": "measurements: speed, bytes, attacks",
}

WAY = (
    ("client/1", "1", "tacit.parties.party.Party.send", "encode, seal, frame"),
    ("client/1", "2", "tacit.sim.network.LinkNetwork.send", "faults, count, trace"),
    ("link", "3", "tacit.sim.link.Link.send", "uplink, latency, downlink"),
    ("server", "4", "tacit.sim.network.LinkNetwork.arrive", "relay: count, trace"),
    ("link to", "5", "tacit.sim.link.Link.send", "a second hop"),
    ("client/4", "6", "tacit.sim.network.LinkNetwork.arrive", "deliver, trace"),
    ("client/4", "7", "tacit.parties.mailbox.Mailbox.put", "late? else keep, wake"),
    ("client/4", "8", "tacit.parties.party.Party.open", "open the seal, decode"),
)
"""Lane, number, function and what it does; the numbers are those of docs/architecture.md."""

LANES = ("client/1", "link", "server", "link to", "client/4")

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.name { font-weight: 600; }
.small { font-size: 12px; fill: #59636e; }
.code { font: 12px ui-monospace, monospace; }
.page { fill: #ffffff; }
.room { fill: #f3f6fa; stroke: #8c959f; }
.lane { stroke: #d1d9e0; stroke-dasharray: 4 4; }
.act { fill: #ddf4ff; stroke: #54aeff; }
.sink { fill: #fff8c5; stroke: #d4a72c; }
.dot { fill: #0969da; }
.number { fill: #ffffff; font-weight: 600; font-size: 12px; }
.arrow { stroke: #59636e; fill: none; stroke-width: 1.5; }
.head { fill: #59636e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #9da7b3; }
  .page { fill: #0d1117; }
  .room { fill: #161b22; stroke: #6e7681; }
  .lane { stroke: #3d444d; }
  .act { fill: #0c2d4a; stroke: #388bfd; }
  .sink { fill: #2e2405; stroke: #bb8009; }
  .dot { fill: #1f6feb; }
  .arrow { stroke: #9da7b3; }
  .head { fill: #9da7b3; }
}"""

WIDTH, HEIGHT = 1100, 690


def folders(room: str) -> list[str]:
    """The packages directly inside `room` that hold modules, also in packages of their own."""
    found = (path for path in (ROOT / room).iterdir() if path.is_dir() and path.name[0] not in "._")
    return sorted(f"{path.name}/" for path in found if path.name != "library" and any(path.rglob("*.py")))


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """The words at (x, y)."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A rectangle with round corners."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{kind}"/>'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """An arrow from (x, y) to (to_x, to_y)."""
    return f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" class="arrow" marker-end="url(#head)"/>'


def house() -> list[str]:
    """The rooms in their order, each with its folders."""
    width, gap, top, height = 196, 20, 64, 178
    found = [text(20, 36, "Packages: each imports only from packages to its left", "name")]
    for number, (room, what) in enumerate(ROOMS.items()):
        x = 20 + number * (width + gap)
        found += [box(x, top, width, height, "room"), text(x + 12, top + 24, f"{room}/", "name")]
        first, _, rest = what.partition(": ")
        lines = [f"{first}:", *_wrapped(rest, 28)] if rest else _wrapped(first, 28)
        found += [text(x + 12, top + 44 + 16 * line, words, "small") for line, words in enumerate(lines)]
        for line, words in enumerate(_wrapped("  ".join(folders(room)), 24)):
            found.append(text(x + 12, top + 104 + 17 * line, words, "code"))
        if number:
            found.append(arrow(x - 2, top + height / 2, x - gap + 3, top + height / 2))
    return found


def way() -> list[str]:
    """The path of one sealed message from a client to another through the server, in a star."""
    top, width = 316, 180
    centres = {lane: 120 + 215 * number for number, lane in enumerate(LANES)}
    found = [
        text(20, 278, "The path of one message: DealtShares from client/1 to client/4, relayed by the server", "name")
    ]
    for lane, x in centres.items():
        found += [text(x, 302, lane.removesuffix(" to"), "name", "middle"), _lane(x, 310, 634)]
    heights = {"1": 0, "2": 52, "3": 92, "4": 120, "5": 148, "6": 176, "7": 228, "8": 280}
    places = {}
    for lane, number, function, does in WAY:
        x, y = centres[lane], top + heights[number]
        places[number] = (x, y)
        found += [
            box(x - width / 2, y, width, 38, "act"),
            f'<circle cx="{x - width / 2:g}" cy="{y + 19:g}" r="10" class="dot"/>',
        ]
        found += [text(x - width / 2, y + 23, number, "number", "middle")]
        found += [
            text(x - width / 2 + 16, y + 16, ".".join(function.split(".")[-2:]), "code"),
            text(x - width / 2 + 16, y + 31, does, "small"),
        ]
    for number in "23456":
        (x, y), (to_x, to_y) = places[number], places[str(int(number) + 1)]
        if to_x > x:
            found.append(arrow(x + width / 2, y + 22, to_x - width / 2 - 11, to_y + 17))
    for number in "1", "6", "7":
        (x, y), (_, to_y) = places[number], places[str(int(number) + 1)]
        found.append(arrow(x, y + 38, x, to_y - 1))
    sinks = (("Ledger", "every hop's bytes"), ("Trace", "every event, hashed"), ("run.sqlite", "by the Recorder"))
    for number, (name, what) in enumerate(sinks):
        x = 30 + 212 * number
        found += [box(x, 586, 180, 40, "sink"), text(x + 12, 603, name, "code"), text(x + 12, 618, what, "small")]
    x, y = places["2"]
    found += [
        arrow(x, y + 38, x, 585),
        arrow(centres["server"], places["4"][1] + 38, 318, 585),
        arrow(422, 606, 453, 606),
    ]
    found.append(
        text(20, 664, "SimLoop drives everything: each event is a timer in its heap, at a virtual time.", "small")
    )
    return found


def _lane(x: float, y: float, to_y: float) -> str:
    return f'<path d="M{x:g} {y:g}V{to_y:g}" class="lane"/>'


def _wrapped(words: str, width: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def picture() -> str:
    """The whole SVG."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="The rooms of Tacit, and the way of one message through them">'
    )
    marker = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="head"/></marker></defs>'
    )
    page = f'<rect width="{WIDTH}" height="{HEIGHT}" class="page"/>'
    return "\n".join([head, f"<style>\n{STYLE}\n</style>", marker, page, *house(), *way(), "</svg>"]) + "\n"


if __name__ == "__main__":
    print(picture(), end="")
