// The page: text on the left, its translation on the right, as deep as the slider allows.

import { RequestError, readDepths, readLanguages, translate } from './api.js';
import { connectCard } from './card.js';
import { qualitySentence, savingSentence, showCosts } from './costs.js';
import { countDifferences, sentenceChanges } from './difference.js';
import { element } from './element.js';
import { exampleFor, LanguageChoice } from './languages.js';
import { showLegend, showWords } from './words.js';

const PAUSE = 250; // milliseconds without a key before a text is translated
const SPOKEN_PAUSE = 800; // milliseconds without a change before a screen reader hears the translation
const GOOD_ENOUGH = 0.99; // of the quality of full depth: there the slider begins
const LONGEST_WAIT = 60; // seconds before a busy server is asked again

const byId = (id) => document.getElementById(id);
const [text, words, slider, notice, swap, copy] = ['text', 'words', 'depth', 'notice', 'swap', 'copy'].map(byId);
const choice = new LanguageChoice(byId('source'), byId('target'));
const card = connectCard(words, byId('card'));

let depths = []; // the slider's stops, full depth last
let key = '';
let alternatives = 2; // none where the server refuses them
let shown = { signal: null, answer: null }; // the answer on the page, and the signal of its request
let full = { question: null, answer: null }; // full depth's answer to the text on the page
let current = new AbortController(); // stops what was asked before
let pause = 0; // the timer of the next request
let spokenPause = 0;
let retry = () => {};

const chosenDepth = () => depths[Number(slider.value)];
const question = () => JSON.stringify([text.value, choice.pair]);

// Asks for languages and depths; until they are there nothing can be translated.
const start = () => attempt(async () => {
  const languages = await readLanguages();
  if (languages.length === 0) throw new RequestError('This server has no languages to translate between.', 0, 0);
  choice.fill(languages);
  await changePair();
}, start);

// Reads the depths of the chosen pair and translates again.
async function changePair() {
  current.abort();
  current = new AbortController();
  depths = [];
  showSwap();
  showExample();
  text.lang = choice.pair.source;
  for (const id of ['spoken', 'alternatives', 'full-text']) byId(id).lang = choice.pair.target;
  depths = await readDepths(choice.pair, current.signal);
  slider.max = depths.length - 1;
  slider.value = firstStop();
  slider.disabled = depths.length < 2;
  byId('blocks').textContent = Math.round(depths.at(-1).average_exit);
  showStop();
  await renew();
}

// The cheapest stop whose quality is close to that of full depth; where it was not measured, the middle.
function firstStop() {
  const best = depths.at(-1).bleu;
  const index = best ? depths.findIndex(({ bleu }) => bleu && bleu >= GOOD_ENOUGH * best) : -1;
  return index < 0 ? Math.floor((depths.length - 1) / 2) : index;
}

// Translates what is on the page now; an answer to an earlier question is dropped.
async function renew() {
  clearTimeout(pause);
  current.abort();
  current = new AbortController();
  const { signal } = current;
  hideNotice();
  showExample();
  if (!text.value.trim() || depths.length === 0) return showNothing();
  words.setAttribute('aria-busy', 'true');
  const depth = chosenDepth();
  const asked = question();
  const ask = (wished) => translate(text.value, choice.pair, wished, { alternatives, key, signal });
  const answer = await ask(depth).catch((error) => {
    if (error.status !== 400 || alternatives === 0 || !/alternatives/.test(error.message)) throw error;
    alternatives = 0;
    return ask(depth);
  });
  if (depth.is_full_depth) full = { question: asked, answer };
  shown = { signal, answer };
  show(depth, full.question === asked ? full.answer : null);
  if (full.question === asked) return undefined;
  // Full depth comes second, so that the reader does not wait for it and neither time disturbs the other. It is asked
  // the same way: another number of alternatives may be another search.
  const deepest = await ask(depths.at(-1));
  full = { question: asked, answer: deepest };
  return show(depth, deepest);
}

// Does something that asks the server, and tells the reader kindly if it fails; `again` is what to do then.
async function attempt(work, again = () => attempt(renew)) {
  try {
    await work();
  } catch (error) {
    if (error.name === 'AbortError') return;
    if (!(error instanceof RequestError)) throw error;
    if (shown.signal !== current.signal) showNothing(); // what stands there answers an earlier question
    tell(error, again);
  }
}

function tell({ message, status, wait }, again) {
  byId('empty').hidden = true;
  const isBusy = status === 429 || status === 503;
  const seconds = Math.min(Math.max(wait, 1), LONGEST_WAIT);
  retry = again;
  showNotice(isBusy ? `${withStop(message)} Trying again in ${seconds} s.` : withStop(message));
  byId('again').hidden = isBusy || (status >= 400 && status < 500);
  if (status === 403 && /key/i.test(message)) byId('key-form').hidden = false;
  if (isBusy) pause = setTimeout(again, seconds * 1000);
}

const withStop = (sentence) => (/[.!?]$/.test(sentence) ? sentence : `${sentence}.`);

function showNotice(sentence) {
  byId('notice-text').textContent = sentence;
  byId('again').hidden = true;
  notice.hidden = false;
}

function hideNotice() {
  notice.hidden = true;
}

// Shows the answer, and how it differs from full depth once that is there.
function show(depth, fullAnswer) {
  const { answer } = shown;
  const { sentences, blocks } = answer.depth;
  const changes = fullAnswer ? sentenceChanges(sentences, fullAnswer.depth.sentences) : [];
  const differences = fullAnswer ? countDifferences(changes) : null;
  keepingFocus(() => showWords(words, answer, changes, choice.pair.target));
  words.removeAttribute('aria-busy');
  for (const part of [words, copy, byId('legend'), byId('costs'), byId('more')]) part.hidden = false;
  for (const part of [byId('empty'), byId('key-form')]) part.hidden = true;
  byId('blocks').textContent = blocks;
  showLegend(byId('legend'), blocks, changes);
  showCosts(byId('costs'), answer.depth, fullAnswer?.depth);
  byId('saving').textContent = savingSentence(answer.depth, depth.is_full_depth, differences);
  byId('alternatives').replaceChildren(...(answer.alternatives ?? []).map((other) => element('li', {}, other)));
  byId('alternatives-details').hidden = !answer.alternatives?.length;
  byId('full-text').textContent = fullAnswer?.translatedText ?? '';
  byId('full-details').hidden = !differences;
  speak(answer.translatedText);
}

// Shows the words anew; a word that had the focus has it again.
function keepingFocus(showAnew) {
  card.hide();
  const boxes = () => [...words.querySelectorAll('.word, .added')];
  const index = boxes().indexOf(document.activeElement);
  showAnew();
  if (index >= 0) boxes()[Math.min(index, boxes().length - 1)]?.focus({ preventScroll: true });
}

function showNothing() {
  card.hide();
  shown = { signal: null, answer: null };
  words.removeAttribute('aria-busy');
  words.replaceChildren();
  for (const part of [words, copy, byId('legend'), byId('costs'), byId('more')]) part.hidden = true;
  byId('empty').hidden = false;
  byId('saving').textContent = text.value.trim() ? '' : 'Type something to see it.';
  speak('');
}

function speak(translation) {
  clearTimeout(spokenPause);
  spokenPause = setTimeout(() => { byId('spoken').textContent = translation; }, SPOKEN_PAUSE);
}

function showStop() {
  const depth = chosenDepth();
  const blocks = depth.average_exit === undefined ? '' : `, ${depth.average_exit.toFixed(1)} blocks a word on average`;
  slider.setAttribute('aria-valuetext', `${Number(slider.value) + 1} of ${depths.length}${blocks}`);
  byId('quality').textContent = qualitySentence(depth, depths.at(-1));
}

function showSwap() {
  const reason = choice.swapReason;
  swap.setAttribute('aria-disabled', reason ? 'true' : 'false');
  swap.title = reason || 'Swap languages';
  byId('swap-reason').textContent = reason;
}

function showExample() {
  byId('example').hidden = Boolean(text.value) || !exampleFor(choice.pair.source);
}

// Makes the field at least as tall as its text. Beside a long translation it is taller, so it is measured alone.
function fitText() {
  text.classList.add('measured');
  const needed = text.scrollHeight;
  text.classList.remove('measured');
  text.style.minHeight = `${needed}px`;
}

function setText(value) {
  text.value = value;
  fitText();
}

async function copyTranslation() {
  try {
    await navigator.clipboard.writeText(shown.answer.translatedText);
    copy.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(words); // the clipboard needs https or this machine; the reader can copy this
    copy.textContent = 'Selected: press Ctrl+C';
  }
  setTimeout(() => { copy.textContent = 'Copy'; }, 2000);
}

text.addEventListener('input', () => {
  fitText();
  clearTimeout(pause);
  pause = setTimeout(() => attempt(renew), text.value.trim() ? PAUSE : 0);
});
slider.addEventListener('input', () => { showStop(); attempt(renew); });
byId('source').addEventListener('change', () => attempt(changePair, () => attempt(changePair)));
byId('target').addEventListener('change', () => attempt(changePair, () => attempt(changePair)));
swap.addEventListener('click', () => {
  if (choice.swapReason) return showNotice(choice.swapReason);
  if (shown.answer) setText(shown.answer.translatedText);
  choice.swap();
  return attempt(changePair, () => attempt(changePair));
});
copy.addEventListener('click', copyTranslation);
byId('example').addEventListener('click', () => { setText(exampleFor(choice.pair.source)); attempt(renew); text.focus(); });
byId('again').addEventListener('click', () => retry());
byId('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  key = byId('key').value.trim();
  attempt(renew);
});
addEventListener('resize', fitText);
start();
