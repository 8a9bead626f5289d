"""``python -m enginehost``: the command line."""

from __future__ import annotations

from enginehost.cli import main

if __name__ == "__main__":
    main()
