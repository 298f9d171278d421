"""Samples in blocks: sources, executors of work on blocks (threads, or the workers of Dask), checkpoints.

    from polyopt import SVM
    from polyopt.scale import NpyFiles
    machine = SVM(C=1.0, kernel="linear").fit(NpyFiles("X.npy", "y.npy"))  # on all threads
    machine.fit(dX, dy)  # arrays or frames of Dask, on the current client: pip install polyopt[dask]

``polyopt.SVM``, ``SigmaSVM``, ``RelativeMarginMachine`` and ``ConvexPolytopeMachine`` fit samples in blocks.
A block at a time is in memory, beside some twenty numbers for each sample. The optimum is that of the samples
in memory, proven in the same way. Sums over blocks are taken in their order: a model depends on the blocks,
but not on the number of threads or workers, nor on workers that are lost on the way, as long as their
processors are of one kind.

Here is what all machines share. In the order to read: ``sources``, ``blocks`` (a block as it was read),
``crew`` (the state of a solver in blocks, which a log rebuilds), ``executor``, ``dask`` with ``on_worker``,
``checkpoint``, and ``fitting`` (an estimator's fit). The machines are in ``polyopt.margin.by_blocks`` and
``polyopt.cpm.by_blocks``.
"""

from polyopt.scale.sources import Arrays, Generated, NpyFiles, Samples, Source

__all__ = ["Arrays", "Generated", "NpyFiles", "Samples", "Source"]
