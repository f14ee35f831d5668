"""The page's looks and its few lines of script; both are part of the page."""

CSS = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1c1c; --pale: #5c5c5c; --rule: #d6d6d6; --tint: #f5f5f3; --code: #f1f1ee;
  --agree: #00609a; --disagree: #b34700; --alert: #fff4e5; --link: #00558a; }
@media (prefers-color-scheme: dark) { :root { --paper: #17181a; --ink: #e8e8e6; --pale: #a9a9a6; --rule: #3d3f42; --tint: #202224;
  --code: #26282b; --agree: #7cc4f5; --disagree: #ff9d5c; --alert: #3a2a14; --link: #8ccbf7; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 3rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--rule); }
p, ul, dl { max-width: 46rem; margin: .5rem 0; }
.lead { font-size: 1.06rem; }
.note { color: var(--pale); font-size: .86rem; overflow-wrap: anywhere; }
.count { font-weight: 600; }
.alert, .missing-note { padding: .5rem .8rem; background: var(--alert); border-left: 4px solid var(--disagree); }
a { color: var(--link); }
nav { margin: 1rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: 0; list-style: none; max-width: none; font-size: .9rem; }
code { font: .86em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--code); padding: .05em .3em;
  border-radius: 3px; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem .9rem; font-size: .9rem; max-width: 60rem; }
dt { color: var(--pale); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .8rem 0; max-width: 100%; }
table { border-collapse: collapse; font-size: .88rem; line-height: 1.35; }
caption { text-align: left; font-weight: 600; padding: 0 0 .4rem; }
caption span { position: sticky; left: 0; display: inline-block; max-width: min(46rem, calc(100vw - 3rem)); overflow-wrap: anywhere; }
th, td { padding: .25rem .6rem; vertical-align: top; text-align: left; }
thead th { border-bottom: 1.5px solid var(--ink); white-space: nowrap; font-weight: 600; }
tbody th { font-weight: 500; }
tbody tr { border-top: 1px solid var(--rule); }
tbody tr.paper { border-top: 0; } tr.paper, td.paper { color: var(--pale); }
.n { text-align: right; white-space: nowrap; }
tbody th { min-width: 4rem; } tbody th:first-child { min-width: 7rem; }
td { max-width: 22rem; } .words td { min-width: 8.5rem; } .words td:last-child { min-width: 15rem; }
.words tbody th:first-child { min-width: 11rem; }
td code.short { white-space: nowrap; }
.spread { display: block; color: var(--pale); font-size: .88em; font-weight: 400; }
.mark { font-weight: 700; margin: 0 .3em 0 0; } .n .mark { margin: 0 0 0 .3em; }
.mark.agree { color: var(--agree); } .mark.disagree { color: var(--disagree); }
.mark.noise, .mark.tie, .mark.unknown, .mark.missing { color: var(--pale); }
td.missing { font-style: italic; color: var(--disagree); }
details { margin: .4rem 0; } summary { cursor: pointer; color: var(--link); font-size: .9rem; width: max-content; max-width: 100%; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1.2rem 1.6rem; align-items: start; }
figure { margin: .8rem 0; min-width: 0; }
figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .3rem; overflow-wrap: anywhere; }
.chart { overflow-x: auto; background: #fff; border-radius: 4px; }
.chart svg { display: block; width: 100%; height: auto; max-width: 34rem; min-width: 20rem; }
.chart.wide svg { width: auto; max-width: none; min-width: 0; }
.point { outline: none; } .point:hover, .point:focus { filter: brightness(.8) drop-shadow(0 0 2px #000); }
svg:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
#tip { position: absolute; z-index: 9; max-width: min(22rem, calc(100vw - 2rem)); padding: .4rem .6rem; background: #1c1c1c; color: #fff;
  font-size: .82rem; line-height: 1.4; white-space: pre-line; overflow-wrap: anywhere; border: 1px solid #777;
  border-radius: 4px; pointer-events: none; }
[data-tip] { cursor: help; }
/* Sentences do not fit beside each other on a telephone: a row of them is a card there. */
@media screen and (max-width: 46rem) { .words, .words tbody, .words tr, .words tbody th, .words td { display: block; }
  .words thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .words caption { display: block; } .words tbody tr { padding: .6rem 0; }
  .words tbody th:first-child { padding: 0 0 .2rem; font-weight: 600; }
  .words td { display: flow-root; max-width: none; padding: .1rem 0 .1rem 6.4rem; overflow-wrap: anywhere; }
  .words td::before { content: attr(data-column); float: left; width: 6rem; margin-left: -6.4rem; color: var(--pale);
    font-style: normal; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --pale: #444; --rule: #bbb; --code: #fff;
    --alert: #fff; --link: #000; --agree: #004a78; --disagree: #8f3800; --tint: #fff; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, #tip, .screen { display: none; } h2 { break-after: avoid; margin-top: 1.6rem; }
  table { font-size: 7.6pt; } th, td { padding: .15rem .35rem; } thead th { white-space: normal; }
  thead { break-inside: avoid; break-after: avoid; } h2 + p, h2 + p + p { break-after: avoid; } td { max-width: none; }
  .words td, .words td:last-child { min-width: 5.2rem; } .words tbody th:first-child { min-width: 7rem; }
  tr, figure, p { break-inside: avoid; }
  .scroll, .chart { overflow: visible; } .chart svg, .chart.wide svg { min-width: 0; width: auto; max-width: 100%; }
  .gallery { grid-template-columns: 1fr 1fr; } details:not([open]) { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

# Titles work alone; the script shows them at once, to a finger and to the keyboard as well.
SCRIPT = """
(() => {
  const tip = document.createElement('div');
  tip.id = 'tip'; tip.hidden = true; tip.setAttribute('role', 'status');
  document.body.append(tip);
  for (const point of document.querySelectorAll('.point')) {
    const title = point.querySelector('title');
    point.dataset.tip = title.textContent;
    point.setAttribute('role', 'img');
    point.setAttribute('aria-label', title.textContent);
    point.setAttribute('tabindex', '-1');
    title.remove();
  }
  for (const told of document.querySelectorAll('[title]')) { told.dataset.tip = told.title; told.removeAttribute('title'); }
  const show = (told) => {
    tip.textContent = told.dataset.tip; tip.hidden = false;
    const box = told.getBoundingClientRect(), size = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
    const left = Math.min(Math.max(box.left + box.width / 2 - size.width / 2, 8), room - size.width - 8);
    const above = box.top - size.height - 8;
    tip.style.left = left + scrollX + 'px';
    tip.style.top = (above > 4 ? above : box.bottom + 8) + scrollY + 'px';
  };
  const hide = () => { tip.hidden = true; };
  const follow = (event) => { const told = event.target.closest('[data-tip]'); if (told) show(told); else hide(); };
  for (const name of ['pointerover', 'focusin', 'click']) document.addEventListener(name, follow);
  document.addEventListener('focusout', hide);
  for (const chart of document.querySelectorAll('.chart svg')) {
    chart.setAttribute('tabindex', '0');
    const points = [...chart.querySelectorAll('.point')];
    chart.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === 'Escape') { chart.focus(); hide(); }
      if (!step || !points.length) return;
      event.preventDefault();
      const here = points.indexOf(document.activeElement);
      points[here < 0 ? (step > 0 ? 0 : points.length - 1) : (here + step + points.length) % points.length].focus();
    });
  }
})();
"""
