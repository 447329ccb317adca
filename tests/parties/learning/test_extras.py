import subprocess
import sys

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import tacit.parties.learning as learning
from tacit.parties.learning.learner import NetworkLearner

spec = learning.ModelSpec("linear", (4,), 3)
for call in (learning.require_torch, lambda: learning.initial(spec, 1), lambda: NetworkLearner(spec).initial(1)):
    try:
        call()
    except learning.MissingExtra as error:
        print(error)
"""


def test_without_torch_all_can_be_imported_and_what_needs_it_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    expected = 'training needs torch, which is not installed: pip install "tacit-fl[train]"'
    assert done.stdout.splitlines() == [expected] * 3


def test_importing_it_does_not_import_torch() -> None:
    script = "import sys, tacit.parties.learning; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
