import subprocess
import sys

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from tacit.parties.learning import jobs
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.learner import NetworkLearner
from tacit.parties.learning.spec import ModelSpec

spec = ModelSpec("linear", (4,), 3)
for call in (jobs.require_torch, lambda: jobs.initial(spec, 1), lambda: NetworkLearner(spec).initial(1)):
    try:
        call()
    except MissingExtra as error:
        print(error)
"""


def test_without_torch_modules_can_be_imported_and_training_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    expected = 'training needs torch, which is not installed: pip install "tacit-fl[train]"'
    assert done.stdout.splitlines() == [expected] * 3


def test_importing_the_learning_modules_does_not_import_torch() -> None:
    imports = "import sys, tacit.parties.learning.jobs, tacit.parties.learning.learners"
    script = f"{imports}; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


COMPILERLESS = """
import sys
from tacit.parties.learning import jobs
from tacit.parties.learning.spec import ModelSpec

spec, update = ModelSpec("linear", (4,), 3), jobs.LocalUpdate(epochs=1, learning_rate=0.1)
jobs.check_optimizer(update)
print(jobs.train_work(spec, update, 8, 0))
print("torch" in sys.modules, "torch._dynamo" in sys.modules)
"""


def test_training_with_plain_sgd_does_not_load_the_compiler_of_torch() -> None:
    done = subprocess.run([sys.executable, "-c", COMPILERLESS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True False"
