"""Tables without lines, as most commands print them."""

from collections.abc import Iterable

from rich.table import Table


def plain_table(
    left: Iterable[str], right: Iterable[str] = (), rest: Iterable[str] = (), *, whole: bool = False
) -> Table:
    """Return a table with columns of words, then right-aligned columns of numbers, then columns of words again.

    `whole`: if a terminal is narrow, only the last columns are wrapped.
    """
    table = Table(box=None, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=whole)
    for name in right:
        table.add_column(name, justify="right", no_wrap=whole)
    for name in rest:
        table.add_column(name)
    return table
