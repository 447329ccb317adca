"""Checks of [model] and [training]: values that contradict each other, or do not fit the data or the machine."""

from collections.abc import Collection, Mapping

import psutil
from msgspec import Struct

from tacit.parties.data.sets import Dataset
from tacit.parties.learning import jobs
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.fits import FITS
from tacit.parties.learning.metrics import OF_CLASSES, has_classes, metric_name, score_name
from tacit.parties.learning.spec import MODELS, LearnerError, ModelError, ModelSpec
from tacit.parties.learning.tasks import TASKS, Task, task_of
from tacit.protocols.federated.algorithms import ALGORITHMS, Update
from tacit.protocols.federated.averaging import Plain
from tacit.protocols.federated.experiment import model_of, settings_of
from tacit.protocols.federated.keys import Model, Training, TrainingTables
from tacit.protocols.federated.method import Companion
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.federated.round import TrainingSettings, able_to_train, smallest_cohort
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.sums.keys import SumKeys
from tacit.sim.plugged import PluginError
from tacit.sim.registry import check_name, similar
from tacit.sim.setting_error import Problem, SettingError
from tacit.sim.toml_text import toml
from tacit.sim.units import format_bytes

__all__ = ["check_training", "key_of", "training_memory"]


_LEAST_SIDE = 5
"""The least side of an image in pixels; augmentation moves it by four of them."""


def check_training(tables: TrainingTables, held: Dataset, labels: Collection[int]) -> None:
    """Raise Problem if `tables` cannot be trained on `held`; `labels` are the numbers of labels of each client."""
    try:
        jobs.require_torch()
    except MissingExtra as missing:
        raise Problem("protocol.name", f"{toml(tables.protocol.name)}: {missing}") from None
    check_name("model.name", tables.model.name, MODELS)
    check_name("training.task", tables.training.task, TASKS)
    if tables.training.fit:
        check_name("training.fit", tables.training.fit, FITS)
    secure = tables.training.averaging != Plain.name
    if ALGORITHMS[tables.protocol.name].private:
        from tacit.protocols.federated.secure_checks import check_private

        check_private(tables)
    _check_update(tables)
    if secure:
        from tacit.protocols.federated.secure_checks import check_own_noise, check_quantised, check_signed

        check_signed(tables)
    _check_augmentation(tables, held)
    try:
        jobs.check_network(model_of(tables, held))
        settings = settings_of(tables, held, labels=labels)
        _check_task(tables, settings)
        jobs.check_optimizer(settings.update)
        jobs.choose_device(tables.training.device)
        jobs.size(settings.spec)
    except MissingExtra as missing:
        raise Problem("model.name", f"{toml(tables.model.name)}: {missing}") from None
    except (PluginError, Problem):
        raise
    except ValueError as error:
        key = key_of(error, {"training": Training, "sum": SumKeys, "model": Model, "privacy": Privacy}) or "training"
        raise Problem(key, str(error)) from None
    except RuntimeError as error:  # torch's, of a network that does not fit into memory
        raise Problem("model.name", f"{toml(tables.model.name)} cannot be built here: {error}") from None
    _check_evaluation(tables, settings)
    _check_batches(tables, settings, labels)
    if ALGORITHMS[tables.protocol.name].buffered:
        _check_buffered(tables, able_to_train(settings, labels))
    if secure:
        check_quantised(tables, settings, labels)
    _check_rounds(tables, settings, labels)
    if secure:
        check_own_noise(tables, settings, labels)
    _check_memory(tables, settings)


def _check_task(tables: TrainingTables, settings: TrainingSettings) -> None:
    """Raise Problem for a task that does not fit the algorithm, and ModelError for a network without the features that
    it needs."""
    labeller, name = settings.method.labeller, tables.training.task
    if ALGORITHMS[tables.protocol.name].predicts or (labeller is not None and labeller.uses_features):
        jobs.feature_count(settings.spec)
    if settings.spec.private and (labeller is not None or ALGORITHMS[tables.protocol.name].predicts):
        problem = "predicts with the shared model, and parts of it are private"
        raise Problem("model.private", f"{toml(tables.protocol.name)} {problem}; allowed: []")
    if settings.spec.private and any(addition.unlabeled for addition, _ in settings.method.additions):
        problem = f"{toml(tables.protocol.name)} trains a second network, whose private parts nobody keeps"
        raise Problem("model.private", f"{problem}; allowed: []")
    if task_of(name).form == "class":
        return
    classes = ALGORITHMS[tables.protocol.name].predicts or labeller is not None
    if classes or any(addition.unlabeled for addition, _ in settings.method.additions):
        problem = f"{toml(name)} has no classes, which protocol.name = {toml(tables.protocol.name)} needs"
        raise Problem("training.task", f"{problem}; allowed there: tasks that learn classes")
    if tables.privacy.label_epsilon != "none":
        problem = f"{tables.privacy.label_epsilon:g} randomises classes, and training.task = {toml(name)} has none"
        raise Problem("privacy.label_epsilon", f'{problem}; allowed: "none"')


def _check_evaluation(tables: TrainingTables, settings: TrainingSettings) -> None:
    """Raise Problem for metrics that the task does not have, and for an evaluation without points or without noise."""
    spec = settings.spec
    own = jobs.metric_names(spec) if tables.training.metrics else ()
    further = (*OF_CLASSES,) if has_classes(spec) else ("test_loss",)
    score = task_of(spec.task).score
    _check_names(spec)
    known = tuple(dict.fromkeys((*further, *(metric_name(name) for name in own if name != score))))
    for name in tables.training.metrics:
        if name not in known:
            problem = f"the task {toml(spec.task)} has no metric {toml(name)}{similar(name, known)}"
            raise Problem("training.metrics", f"{problem}; allowed: {', '.join(known)}")
    asked = toml(tables.training.evaluation)
    if settings.keys.evaluation == "none":
        return
    if ALGORITHMS[tables.protocol.name].private or tables.privacy.label_epsilon != "none":
        what = "dp-fedavg" if ALGORITHMS[tables.protocol.name].private else "privacy.label_epsilon"
        problem = f"{asked} reveals figures of labels without noise, which {what} promises not to reveal"
        raise Problem("training.evaluation", f'{problem}; allowed: "none"')
    if not tables.data.held_out:
        problem = f"0 leaves clients no points of their own to test on, and training.evaluation is {asked}"
        raise Problem("data.held_out", f"{problem}; allowed: more than 0, such as 0.2")
    if settings.keys.evaluation == "secure" and ALGORITHMS[tables.protocol.name].buffered:
        name = toml(tables.protocol.name)
        problem = f"{asked} adds figures in the secure sum of a round's models, and {name} takes each model by itself"
        raise Problem("training.evaluation", f'{problem}; allowed: "plain" or "none"')
    if settings.keys.evaluation == "secure" and settings.averaging.individual:
        problem = 'in the secure sum of the models, and training.averaging is "plain"'
        ways = 'training.averaging = "secure" or another secure sum, or training.evaluation = "plain" or "none"'
        raise Problem("training.evaluation", f"{asked} adds figures {problem}; allowed: {ways}")


def _check_names(spec: ModelSpec) -> None:
    """Raise Problem if two metrics of a task of one's own are recorded under the same name."""
    task = task_of(spec.task)
    if type(task).__module__ == Task.__module__:
        return
    further = {name: f"{name} of classes" for name in OF_CLASSES if has_classes(spec) and name != "test_loss"}
    taken = {**further, "test_loss": "the mean loss"}
    try:
        names = jobs.metric_names(spec)
    except Exception:  # of the user's code, which may measure real points but no two of zeros
        return
    for name in names:
        recorded = score_name(task) if name == task.score else metric_name(name)
        if recorded in taken:
            problem = f"the task {toml(spec.task)} has the metric {toml(name)}, which is recorded as {toml(recorded)}, "
            problem += f"as is {taken[recorded]}"
            raise Problem("training.task", f"{problem}; rename one of them")
        taken[recorded] = f"the metric {toml(name)}"


def _check_update(tables: TrainingTables) -> None:
    name, update = tables.protocol.name, tables.training.update
    settings = ALGORITHMS[name].update or update
    if update not in ("fedavg", settings):
        problem = f"{toml(update)} does not go with protocol.name = {toml(name)}, which has its own; allowed: "
        raise Problem("training.update", problem + toml(settings))


def _check_batches(tables: TrainingTables, settings: TrainingSettings, labels: Collection[int]) -> None:
    """Raise Problem if no client has enough points for a batch of a network that normalises batches."""
    least, alone = settings.update.least_batch, not settings.trains_unlabeled(1)
    what = f"model {toml(tables.model.name)} normalises each batch, which needs {least} points"
    if alone and tables.training.labeled_batch < least:
        raise Problem("training.labeled_batch", f"{tables.training.labeled_batch} is too small: {what}")
    if any(labels) and settings.private is None and not able_to_train(settings, labels):
        raise Problem("model.name", f"no client has more than {max(labels)} labeled point, and {what}")


def _check_buffered(tables: TrainingTables, able: int) -> None:
    """Raise Problem for values of [training] that do not fit buffered averaging; `able`: the clients that train."""
    name, training = toml(tables.protocol.name), tables.training
    if training.averaging != "plain":
        problem = f"{toml(training.averaging)} does not go with protocol.name = {name}: clients of a secure sum begin "
        problem += "together and wait for each other, and here each model is taken by itself"
        raise Problem("training.averaging", f'{problem}; allowed: "plain"')
    if not _fits_buffer(UPDATES[training.update]):
        problem = f"{toml(training.update)} has a part at the server that takes one round's average, and here is none"
        fit = [one for one, update in UPDATES.items() if _fits_buffer(update)]
        raise Problem("training.update", f"{problem}; allowed: {', '.join(map(toml, fit))}")
    for key, value in (("concurrency", training.concurrency), ("buffer", training.buffer)):
        if value is not None and value > able:
            problem = f"{value} is more than the clients with labels, each of whom is called once a round"
            raise Problem(f"training.{key}", f"{problem}; allowed: 1 to {able}")


def _fits_buffer(update: Update) -> bool:
    """Return true if clients do the whole update."""
    return update.server is None and all(type(make()) is Companion for _, make in update())


def _check_augmentation(tables: TrainingTables, held: Dataset) -> None:
    name, shape = tables.training.augmentation, held.shape
    if name == "none" or (len(shape) == 3 and min(shape[1:]) >= _LEAST_SIDE):
        return
    problem = f"{toml(name)} changes images, and the points of {held.name} are "
    problem += f"{shape[1]} x {shape[2]} pixels, too small for it" if len(shape) == 3 else f"{shape[0]} numbers"
    raise Problem("training.augmentation", f"{problem}; allowed: {toml('none')}")


def _check_rounds(tables: TrainingTables, settings: TrainingSettings, labels: Collection[int]) -> None:
    training = tables.training
    if settings.method.labeller is not None and training.label_from > training.rounds:
        problem = f"{training.label_from} is after the last round; allowed: 1 to {training.rounds} (training.rounds)"
        raise Problem("training.label_from", problem)
    alone, secure = not settings.trains_unlabeled(1), not settings.averaging.individual
    if secure and training.min_clients == 1:
        problem = f'1 is too small: with training.averaging = "{training.averaging}" it would show one client\'s model'
        raise Problem("training.min_clients", f"{problem}; allowed: 2 or more")
    drawn, least = smallest_cohort(settings, labels), settings.averaging.fewest(settings.min_clients)
    if drawn < least:
        able = able_to_train(settings, labels)
        who = "clients with labels" if alone else "clients"
        cohort = f"{training.share:g} of {able} {who} are {drawn} in a round"
        if training.min_clients is not None and drawn >= settings.averaging.fewest(1):
            problem = f"{training.min_clients} is too large: {cohort} (training.share); allowed: up to {drawn}"
            raise Problem("training.min_clients", problem)
        problem = f'{cohort}, and training.averaging = "{training.averaging}" needs {least}'
        colluding = 0
        if secure:
            from tacit.protocols.federated.secure_averages import Secure

            assert isinstance(settings.averaging, Secure)
            colluding = settings.averaging.sum.of_run.colluding
        if colluding and least == colluding + 2:
            problem += f", two more than the C = {colluding} that may collude with the server"
        raise Problem("training.share", f"{problem}; allowed: more clients, or a larger share")
    others = able_to_train(settings, labels) - drawn
    if settings.keys.extra > others:
        problem = (
            f"{settings.keys.extra} besides {drawn} are more clients than there are to call; allowed: 0 to {others}"
        )
        raise Problem("training.extra", problem)


def training_memory(tables: TrainingTables, settings: TrainingSettings) -> int:
    """The most bytes of models and of vectors beside them in both directions; measured with ten and thirty clients."""
    drawn, vectors, kept = settings.together, settings.expected.sizes, settings.expected.sizes[1:]
    others = [str(number) for number in range(tables.data.clients)]
    companions = [make() for _, make in settings.method.additions]
    beside = sum(companion.outgoing_size(settings.spec, others[0], others) for companion in companions)
    return sum(vectors) * (settings.averaging.copies * drawn + 2) + beside * drawn + sum(kept) * len(others)


def _check_memory(tables: TrainingTables, settings: TrainingSettings) -> None:
    clients, drawn, vector = tables.data.clients, settings.together, sum(settings.expected.sizes)
    needed, free = training_memory(tables, settings), psutil.virtual_memory().available
    if needed > free:
        problem = f"{drawn} models of {format_bytes(vector)} at a time, of {tables.model.name}, need about "
        problem += f"{format_bytes(needed)} of memory and {format_bytes(free)} are free"
        most = max(0.0, (free / vector - 2) / settings.averaging.copies / clients)
        raise Problem("training.share", f"{problem}; allowed here: less than {most:.2g}")


# --- the key that caused an error


def key_of(error: ValueError, tables: Mapping[str, type[Struct]]) -> str:
    """The key of the first of `tables` that has the setting, or that of the model's or learner's name; otherwise ""."""
    if isinstance(error, SettingError):
        return next(
            (f"{name}.{error.key}" for name, table in tables.items() if error.key in table.__struct_fields__), ""
        )
    return {ModelError: "model.name", LearnerError: "learner.name"}.get(type(error), "")
