"""Worker processes: where functions run that may block, crash or hang.

Host side: :mod:`~enginehost_engines.worker.pool` (how many processes, who gets one),
:mod:`~enginehost_engines.worker.process` (one process). Child side, standard library only:
``worker_main.py`` (start), ``child`` (load and serve), ``targets`` (what is called), ``imports`` (which
files that took), ``output`` (prints).
Both sides: ``wire`` (frames).
"""
