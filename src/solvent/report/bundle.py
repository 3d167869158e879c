"""The charting library that is embedded in a page: Vega, Vega-Lite and Vega-Embed, from `vl-convert-python`."""

from __future__ import annotations

from functools import lru_cache

from solvent.errors import SolventError


def check_installed() -> None:
    """Raise a `SolventError` if the package with the charting library is not installed."""
    try:
        import vl_convert  # noqa: F401
    except ImportError:
        raise SolventError(
            'report: expected the package vl-convert-python, found no such package; pip install "solvent[report]"'
        ) from None


@lru_cache(maxsize=1)
def chart_script() -> str:
    """Return the library as one script, which defines `vegaEmbed` and `vega`.

    Raises
    ------
    SolventError
        If the package is not installed.
    """
    check_installed()
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed; window.vega = vega;")
    # a script element ends at the first end tag, also inside a string
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def library_text() -> str:
    """Return the names and versions of the embedded libraries."""
    check_installed()
    import vl_convert

    versions = vl_convert.get_vega_version(), vl_convert.get_vegalite_versions()[-1]
    return f"Vega {versions[0]}, Vega-Lite {versions[1]}"
