import pytest

from tacit.parties.learning.learners import learner_of
from tacit.parties.learning.table_work import measure_costs
from tacit.sim.compute import CostTable


@pytest.mark.long
def test_every_operation_of_tabular_learners_is_measured() -> None:
    costs = measure_costs(repeats=1, quick=True)
    for name in ("decision-tree", "random-forest", "xgboost", "rulefit"):
        learner = learner_of(name, {}, (12,), 2)
        work = {**learner.fit_work(100), **learner.predict_work(100)}
        assert set(work) <= set(costs)
        assert sum(count * costs[operation] for operation, count in work.items()) > 0


def test_the_cost_table_has_every_operation_of_tabular_learners() -> None:
    table = CostTable.load()
    for name in ("decision-tree", "random-forest", "xgboost", "rulefit"):
        learner = learner_of(name, {}, (12,), 7)
        assert table.duration(learner.fit_work(400)) > table.duration(learner.predict_work(1)) >= 0
