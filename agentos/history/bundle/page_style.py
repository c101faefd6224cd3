"""How the page looks. All bars have one width and end at one edge, whatever their row's level, so that times compare.
It follows the light or dark of the system."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--paper:#fdfdfc;--ink:#1d232b;--dim:#56606d;--line:#d9dde3;--soft:#f2f4f6;
--well:#2f6f9f;--badly:#b3261e;--open:#8a6100}
@media(prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ed;--dim:#a0aab6;--line:#343b45;--soft:#1d2228;
--well:#6db3e2;--badly:#ff8a80;--open:#e5b54a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1500px;padding:1rem;background:var(--paper);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:1.5rem;margin:.5rem 0}
h2{font-size:1.1rem;margin:2rem 0 .25rem;overflow-wrap:anywhere}
p{margin:.25rem 0 .75rem;color:var(--dim);max-width:70ch}
.sums{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0;padding:0;list-style:none}
.sums li{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.4rem .8rem}
.sums b{display:block;font-size:1.2rem}
.sums .badly b{color:var(--badly)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.2rem 1rem;margin:0}
dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
ul.tree,ul.tree ul{list-style:none;margin:0;padding:0}
ul.tree ul{border-left:1px solid var(--line);margin-left:.55rem;padding-left:.55rem}
ul.tree ul.deep{margin-left:0;padding-left:0;border-left:1px dashed var(--line)}
.row{display:block;padding:.2rem .25rem;border-radius:4px}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary .what::before{content:"▸";display:inline-block;width:1em;color:var(--dim)}
details[open]>summary .what::before{content:"▾"}
.leaf .what::before{content:"";display:inline-block;width:1em}
summary:hover{background:var(--soft)}
summary:focus-visible{outline:2px solid var(--well);outline-offset:1px}
.cells{display:grid;grid-template-columns:1.2em minmax(0,1fr) calc(min(100vw,1500px)*.4);gap:.4rem;align-items:center}
.what{overflow-wrap:anywhere}
.facts{color:var(--dim);font-variant-numeric:tabular-nums}
.sign{text-align:center}
.well>.sign{color:var(--well)}
.badly>.sign,.badly .facts{color:var(--badly)}
.open>.sign{color:var(--open)}
.bar{display:block;background:var(--soft);border-radius:3px}
rect.well{fill:var(--well)}
rect.badly{fill:var(--badly)}
rect.open{fill:var(--open)}
.more{color:var(--dim);padding:.2rem 1.8rem;font-style:italic}
.axis{display:flex;justify-content:space-between;color:var(--dim);font-size:.85rem;flex-wrap:wrap;gap:0 1rem}
@media(max-width:640px){body{padding:.6rem}.cells{grid-template-columns:1.2em minmax(0,1fr)}
.bar{grid-column:1/-1;justify-self:end;width:70vw}dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:.4rem}
ul.tree ul{margin-left:.2rem;padding-left:.3rem}}
@media print{details>*{display:block}}
"""
