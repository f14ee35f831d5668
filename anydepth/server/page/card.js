// The card of a word, under the pointer or the keyboard's focus: where the word left and how sure the model was.

import { element } from './element.js';
import { atFullDepth } from './words.js';

const MARGIN = 8; // pixels between card, word and window
const LINGER = 150; // milliseconds in which the pointer may cross from the word to its card

const hundredths = (share) => (share > 0.995 && share < 1 ? '>99' : String(Math.round(share * 100)));
const percent = (share) => `${hundredths(share)}%`;

// Shows the card for the boxes in `place`, and lets arrow keys move among them.
export function connectCard(place, card) {
  let shown = null;
  let leaving = 0;

  const hide = () => {
    clearTimeout(leaving);
    shown?.removeAttribute('aria-describedby');
    shown = null;
    card.hidden = true;
  };
  const show = (box) => {
    clearTimeout(leaving);
    if (shown === box) return;
    hide();
    shown = box;
    card.replaceChildren(...cardContent(box.detail));
    card.hidden = false;
    box.setAttribute('aria-describedby', card.id);
    putBeside(card, box);
  };
  const hideSoon = () => {
    clearTimeout(leaving);
    leaving = setTimeout(() => (document.activeElement?.detail ? show(document.activeElement) : hide()), LINGER);
  };
  const boxAt = (event) => event.target.closest?.('.word, .added');

  place.addEventListener('pointerover', (event) => { const box = boxAt(event); if (box) show(box); else hideSoon(); });
  place.addEventListener('pointerleave', hideSoon);
  card.addEventListener('pointerenter', () => clearTimeout(leaving));
  card.addEventListener('pointerleave', hideSoon);
  place.addEventListener('focusin', (event) => { const box = boxAt(event); if (box) { makeStop(place, box); show(box); } });
  place.addEventListener('focusout', hideSoon);
  place.addEventListener('keydown', (event) => moveFocus(place, event));
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hide(); });
  addEventListener('scroll', () => { if (shown) putBeside(card, shown); }, { passive: true });
  addEventListener('resize', hide);
  return { hide };
}

// Of all boxes one is in the order of the tab key: the last that had the focus.
function makeStop(place, box) {
  place.querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1');
  box.setAttribute('tabindex', '0');
}

function moveFocus(place, event) {
  const boxes = [...place.querySelectorAll('.word, .added')];
  const here = boxes.indexOf(document.activeElement);
  const target = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: boxes.length - 1 }[event.key];
  if (here < 0 || target === undefined) return;
  event.preventDefault();
  boxes[Math.min(Math.max(target, 0), boxes.length - 1)].focus();
}

function putBeside(card, box) {
  const place = box.getBoundingClientRect();
  const { width, height } = card.getBoundingClientRect();
  const room = document.documentElement;
  const left = Math.min(place.left + place.width / 2 - width / 2, room.clientWidth - width - MARGIN);
  const below = place.bottom + MARGIN;
  const above = place.top - height - MARGIN;
  card.style.left = `${Math.max(left, MARGIN)}px`;
  card.style.top = `${below + height > room.clientHeight && above > 0 ? above : below}px`;
}

function cardContent({ word, blocks, change }) {
  const difference = change ? [element('p', { class: 'difference' }, sentence(atFullDepth(change)))] : [];
  if (!word) return difference;
  const title = element('p', { class: 'title' });
  title.append(
    element('strong', {}, word.text),
    element('span', {}, ` left after block ${word.exit} of ${blocks}, ${percent(word.probability)} sure`),
  );
  const explanation = word.pieces.length > 1
    ? 'How sure it was of each piece of the word after every block, in percent:'
    : 'How sure it was of this word after every block, in percent:';
  return [
    title, ...difference, element('p', { class: 'note' }, explanation),
    ...word.pieces.map((piece) => pieceChart(piece, blocks, word.pieces.length > 1)),
  ];
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

// A column for every block, with its number and the probability, as far as the piece went; a block at which no word
// can leave has none (null).
function pieceChart(piece, blocks, hasLabel) {
  const chart = element('div', { class: 'chart', role: 'img' });
  const figures = piece.passed.flatMap((probability, index) => (
    probability === null ? [] : [`block ${index + 1} ${percent(probability)}`]));
  const text = piece.text.replaceAll('▁', '');
  chart.setAttribute('aria-label', `${text}: ${figures.join(', ')}`);
  for (let block = 1; block <= blocks; block += 1) chart.append(column(block, piece.passed[block - 1] ?? null, piece.exit));
  const row = element('div', { class: 'piece' });
  if (hasLabel) row.append(element('span', { class: 'piece-text' }, text || '␣'));
  row.append(chart);
  return row;
}

function column(block, probability, exit) {
  const made = element('span', { class: block > exit ? 'column unused' : 'column' });
  const bar = element('span', { class: block === exit ? 'bar last' : 'bar' });
  bar.style.setProperty('--probability', probability ?? 0);
  if (probability !== null) bar.append(element('span', { class: 'figure' }, hundredths(probability)));
  made.append(bar, element('span', { class: 'block' }, String(block)));
  return made;
}
