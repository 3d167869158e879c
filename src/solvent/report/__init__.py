"""A report of a solution: one HTML page that needs no server and no network.

`Solution.report` writes it. `gather` computes what the page shows, `page` writes it as HTML, with the charts of
`charts` and the scripts of the package `vl-convert-python` (extra `report`).
"""
