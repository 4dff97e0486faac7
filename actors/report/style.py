"""The style sheet of the report: follows the reader's light or dark theme, for any width of screen and for print."""

_LIGHT = ("#0a63c9", "#c2410c", "#15803d", "#be185d", "#7c3aed", "#a16207", "#0e7490", "#57606a", "#1f2328")
_DARK = ("#58a6ff", "#fb923c", "#4ade80", "#f472b6", "#a78bfa", "#facc15", "#22d3ee", "#9aa4b2", "#e6e9ee")


def _colours(values: tuple[str, ...]) -> str:
    return "".join(f"--c{at}:{value};" for at, value in enumerate(values))


STYLE = (
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--soft:#59636e;--rule:#e6e8eb;--edge:#d0d7de;"
    f"--bad:#c8102e;--shade:.09;{_colours(_LIGHT)}}}"
    "@media(prefers-color-scheme:dark){:root{--ground:#13161b;--ink:#e6e9ee;--soft:#9aa4b2;--rule:#262b33;"
    f"--edge:#3a414b;--bad:#ff6b78;--shade:.2;{_colours(_DARK)}}}}}"
    + "".join(f"path.c{at}{{stroke:var(--c{at})}}i.c{at}{{background:var(--c{at})}}" for at in range(len(_LIGHT)))
    + """
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:var(--ground);
max-width:76rem;margin:0 auto;padding:1.6rem clamp(.8rem,3vw,2.4rem) 4rem;overflow-wrap:anywhere}
h1{font-size:1.45rem;line-height:1.25;margin:0}h1+p{margin:.3rem 0 1.6rem;color:var(--soft)}
h2{font-size:1.2rem;margin:2.8rem 0 1rem;padding-bottom:.35rem;border-bottom:1px solid var(--edge)}
h3{font-size:1rem;margin:1.8rem 0 .4rem}p{margin:.4rem 0}small{font-size:.86em;font-weight:400;color:var(--soft)}
a{color:var(--c0)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:1.8rem 2rem}
figure{margin:0;min-width:0}.wide{grid-column:1/-1}figcaption{font-weight:600}
.plot{display:block;height:190px;width:calc(100% - 5.4rem);margin:.9rem .8rem 1.9rem 4.6rem;overflow:visible}
.wide .plot{height:230px}.plot svg{overflow:visible}
path{fill:none;stroke-width:1.7;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.dot{stroke-width:6;stroke-linecap:round}.grid{stroke:var(--rule)}.mark{stroke:var(--bad);stroke-dasharray:5 4}
.span{fill:var(--bad);fill-opacity:var(--shade)}text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
.value,.marked{text-anchor:end}.marked{fill:var(--bad)}.time,.none{text-anchor:middle}
.tips rect{fill:transparent}.tips rect:hover{fill:var(--ink);fill-opacity:.09}
figure ul{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1.2rem;margin:0 0 0 4.6rem;padding:0;font-size:13px}
li small{white-space:nowrap}
i{display:inline-block;width:.75em;height:.75em;border-radius:2px;margin-right:.45em}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:.32rem .7rem;vertical-align:top}td:first-child{min-width:8rem}
th{color:var(--soft);font-weight:600;border-bottom:1px solid var(--edge)}td{border-bottom:1px solid var(--rule)}
td.n,th.n{text-align:right}td.n,td.w,th{white-space:nowrap}.bad{color:var(--bad)}
@media(max-width:34rem){.plot,.wide .plot{height:170px;width:calc(100% - 4.3rem);margin-left:3.9rem;margin-right:.4rem}
figure ul{margin-left:0}text{font-size:11px}}
@media print{body{max-width:none;padding:0}figure,tr{break-inside:avoid}}
"""
)
