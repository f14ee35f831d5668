// What a translation cost beside the same at full depth, in words and bars.

import { element } from './element.js';

const figure = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

// Fills `place` with a row for blocks, computing and time; `full` may be still on its way. A time that was measured
// once is no ratio, so it has no bar.
export function showCosts(place, depth, full) {
  const ours = figure(depth.milliseconds);
  place.replaceChildren(
    ...row('Blocks a word', `${figure(depth.average_exit)} of ${depth.blocks}`, depth.average_exit / depth.blocks),
    ...row('Computing (FLOPs)', `${Math.round(depth.flops_share * 100)}% of full depth`, depth.flops_share),
    ...row('Time', full ? `${ours} ms, full depth ${figure(full.milliseconds)} ms (measured once)` : `${ours} ms`),
  );
}

// A name with its value, and a bar where it is a share.
function row(name, value, share = null) {
  const cell = element('dd', { class: share === null ? 'plain' : 'shared' });
  cell.append(element('span', {}, value));
  if (share !== null) {
    const bar = element('span', { class: share > 1 ? 'share over' : 'share', 'aria-hidden': 'true' });
    bar.style.setProperty('--share', Math.min(Math.max(share, 0), 1));
    cell.append(bar);
  }
  return [element('dt', {}, name), cell];
}

// One sentence: what was saved and how many words it changed (null while full depth is still on its way).
export function savingSentence(depth, isFullDepth, differences) {
  if (isFullDepth) return 'This is full depth: every word passes every block.';
  const percent = Math.round(Math.abs(1 - depth.flops_share) * 100);
  const computing = percent === 0 ? 'As much computing as full depth' : (
    `${percent}% ${depth.flops_share < 1 ? 'less' : 'more'} computing than full depth`);
  if (differences === null) return `${computing}.`;
  const words = { 0: 'the same words', 1: 'one word differs' }[differences] ?? `${differences} words differ`;
  return `${computing}; ${words}.`;
}

// What the quality of a depth was on test sentences, beside full depth; empty where it was not measured.
export function qualitySentence(depth, full) {
  if (depth.is_full_depth || !depth.bleu || !full.bleu) return '';
  const share = ((100 * depth.bleu) / full.bleu).toFixed(1);
  const scores = `BLEU ${depth.bleu.toFixed(1)} of ${full.bleu.toFixed(1)}`;
  return `Measured on many sentences: ${share}% of the quality of full depth (${scores}).`;
}
