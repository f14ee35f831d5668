// The translation as words, each in a box that reaches as deep as the word went.

import { element } from './element.js';

// Fills `place` with the translation; spaces and line breaks stand between the boxes as they stand in the text.
// A word that full depth changes is marked, and a sign stands where only full depth has words.
export function showWords(place, answer, changesOfSentences, language) {
  const { blocks, sentences } = answer.depth;
  const text = answer.translatedText;
  const parts = [];
  let end = 0;
  sentences.forEach((sentence, index) => {
    const found = changesOfSentences[index] ?? [];
    sentence.words.forEach((word, position) => {
      const start = text.indexOf(word.text, end);
      parts.push(start < 0 ? ' ' : text.slice(end, start));
      if (start >= 0) end = start + word.text.length;
      parts.push(...addedSigns(found, position));
      parts.push(wordBox(word, blocks, found.find(({ from, to }) => from <= position && position < to), language));
    });
    parts.push(...addedSigns(found, sentence.words.length, ' '));
  });
  parts.push(text.slice(end));
  place.replaceChildren(...parts);
  place.querySelector('.word, .added')?.setAttribute('tabindex', '0');
}

// A word's box. The card reads `detail`, screen readers the label.
function wordBox(word, blocks, change, language) {
  const box = element('span', { class: change ? 'word differs' : 'word', role: 'button', tabindex: '-1' });
  box.append(element('span', { class: 'letters', lang: language }, word.text));
  const differs = change ? `; ${atFullDepth(change)}` : '';
  box.setAttribute('aria-label', `${word.text}: left after block ${word.exit} of ${blocks}${differs}`);
  box.dataset.exit = word.exit;
  shade(box, word.exit, blocks);
  box.detail = { word, blocks, change };
  return box;
}

// Sets the depth and shade of a box: `--passed` blocks below the first, `--share` of the way to the deepest.
export function shade(box, exit, blocks) {
  box.style.setProperty('--passed', exit - 1);
  box.style.setProperty('--share', blocks > 1 ? (exit - 1) / (blocks - 1) : 1);
}

// The sign before the word at `position`, if full depth has more words there.
function addedSigns(found, position, space = '') {
  return found.filter(({ from, to }) => from === to && from === position).flatMap((change) => {
    const sign = element('span', { class: 'added', role: 'button', tabindex: '-1' }, '+');
    sign.setAttribute('aria-label', atFullDepth(change));
    sign.detail = { change };
    return [space, sign, space ? '' : ' '];
  });
}

// What full depth has in place of the words of a change.
export function atFullDepth({ from, to, words }) {
  if (words.length === 0) return 'full depth leaves this out';
  return `full depth ${from === to ? 'adds' : 'says'} “${words.join(' ')}”`;
}

// Fills `place` with the key to the boxes: one for every number of blocks, and the marks that occur.
export function showLegend(place, blocks, changesOfSentences) {
  const found = changesOfSentences.flat();
  const samples = element('span', { class: 'samples' });
  samples.append(...Array.from({ length: blocks }, (_, index) => sample(index + 1, blocks)));
  place.replaceChildren(legendEntry('blocks passed', samples));
  if (found.some(({ from, to }) => from < to)) {
    const mark = element('span', { class: 'differs' });
    mark.append(element('span', { class: 'letters' }, 'word'));
    place.append(legendEntry('differs at full depth', mark));
  }
  if (found.some(({ from, to }) => from === to)) {
    place.append(legendEntry('full depth has more words here', element('span', { class: 'added' }, '+')));
  }
}

function sample(exit, blocks) {
  const box = element('span', { class: 'sample' }, String(exit));
  shade(box, exit, blocks);
  return box;
}

function legendEntry(text, mark) {
  const entry = element('span');
  entry.append(mark, element('span', {}, text));
  return entry;
}
