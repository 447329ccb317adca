"""The parts of the build that setup.cfg cannot state.

scenarios/conftest.py is for pytest in this tree and no part of the package. The C files are compiled where a compiler
is there; without one everything runs, more slowly (see protocols/crypto/compiled.py and sim/digests.py).
"""

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


class WithoutConftest(build_py):
    """Builds every module but those called conftest."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[1] != "conftest"]


setup(
    cmdclass={"build_py": WithoutConftest},
    ext_modules=[
        Extension(
            f"tacit.{folder.replace('/', '.')}._{name}",
            [f"{folder}/{name}.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],
            depends=headers,
            optional=True,
        )
        for folder, name, headers in (
            ("protocols/crypto", "eightfold", ["protocols/crypto/eightfold.h"]),
            ("protocols/crypto", "lanes", []),
            ("protocols/crypto", "transfers", []),
            ("sim", "digests", []),
            ("sim", "events", ["sim/journeys.h", "sim/uplinks.h"]),
        )
    ],
)
