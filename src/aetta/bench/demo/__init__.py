"""The embedded demo: real digits drift, a model adapts to them and collapses, AETTA notices with no label and repairs.

done = perform(Setting(seed=1), watch=lambda moment: print(moment.domain))
done.write(Path("aetta-demo"))
"""

from aetta.bench.demo.perform import Performance, perform
from aetta.bench.demo.play import ADAPTED, RECOVERED, RUNS, SOURCE, Moment
from aetta.bench.demo.setting import QUICK, Setting

__all__ = ["ADAPTED", "QUICK", "RECOVERED", "RUNS", "SOURCE", "Moment", "Performance", "Setting", "perform"]
