"""`python -m benchmarks NAME`: each benchmark, compared with its peers that are installed."""

from pathlib import Path
from typing import Annotated

import typer

Quick = Annotated[bool, typer.Option("--quick", help="Smaller sizes and fewer repeats.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")]

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def crypto(
    quick: Quick = False,
    json_file: JsonFile = None,
    costs: Annotated[
        Path | None, typer.Option(help="Measure the cost table for this machine instead, and write it to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the operations a second into this file.")] = None,
) -> None:
    """The speed of the cryptography beside other libraries; or the cost table."""
    from benchmarks import crypto as benchmark

    benchmark.main(quick, json_file, costs, plot)


@app.command("bytes")
def bytes_(
    quick: Quick = False,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the crossover into this file.")] = None,
) -> None:
    """Bytes on the wire beside the formulas and each other; and where transfers are faster than Paillier."""
    from benchmarks import bytes as benchmark

    raise typer.Exit(benchmark.main(quick, json_file, plot))


@app.command()
def sim(quick: Quick = False, json_file: JsonFile = None) -> None:
    """The simulator's speed."""
    from benchmarks import sim as benchmark

    benchmark.main(quick, json_file)


@app.command()
def training(quick: Quick = False, json_file: JsonFile = None) -> None:
    """Federated training: rounds a second beside a plain loop and other simulators."""
    from benchmarks import training as benchmark

    benchmark.main(quick, json_file)


@app.command()
def scale(
    quick: Quick = False,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw time and memory by size into this file.")] = None,
    only: Annotated[str, typer.Option("--only", metavar="TOPIC", help="Only the curves of this topic.")] = "",
) -> None:
    """How time and memory of runs grow with points, clients and messages, with the fitted exponents."""
    from benchmarks import scale as benchmark

    raise typer.Exit(benchmark.main(quick, json_file, plot, only))


@app.command()
def attacks(quick: Quick = False, json_file: JsonFile = None) -> None:
    """What attacks recover from deliberately weakened copies of the protocols, and from the protocols themselves."""
    from benchmarks import attacks as benchmark

    benchmark.main(quick, json_file)


@app.command()
def reality(
    quick: Quick = False,
    json_file: JsonFile = None,
    only: Annotated[str, typer.Option("--only", metavar="TOPIC", help="Only this topic: tcp, deployed.")] = "",
    repeats: Annotated[int | None, typer.Option(min=1, help="How often each is measured; default: 5.")] = None,
) -> None:
    """Predictions beside real machines, in network namespaces: TCP, and runs whose parties are processes."""
    from benchmarks import reality as benchmark

    raise typer.Exit(benchmark.main(quick, json_file, only, repeats))


if __name__ == "__main__":
    app()
