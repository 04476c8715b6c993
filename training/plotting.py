"""Pictures of results: matplotlib, which only they need, and how figures become files."""

from pathlib import Path
from typing import Any


def load_pyplot() -> Any:
    """
    Return pyplot, drawing into files.

    Raises:
        `ImportError`: where matplotlib is not installed, saying how to install it.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("`plot` needs matplotlib: pip install 'docmt[plot]'.") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure as a file, making its folder, and forget it."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    load_pyplot().close(figure)
