// The choice of languages.

import { element } from './element.js';

// Something to begin with, for a reader who has no text at hand.
const EXAMPLES = {
  de: 'Die berühmten Verkäuferinnen wissen, dass dieser Bus nach Athen um fünf vor halb sieben abfährt.',
  en: 'The famous shop assistants know that this bus to Athens leaves at twenty-five past six.',
  fr: 'Les vendeuses célèbres savent que ce bus pour Athènes part à six heures vingt-cinq.',
};

export const exampleFor = (code) => EXAMPLES[code] ?? '';

// The two lists: `pair` is what is chosen, `swapReason` says why both cannot change places (empty if they can).
export class LanguageChoice {
  constructor(source, target) {
    this.source = source;
    this.target = target;
    this.languages = [];
    source.addEventListener('change', () => this.fillTargets());
  }

  fill(languages) {
    this.languages = languages;
    this.source.replaceChildren(...options(languages));
    this.fillTargets();
  }

  fillTargets() {
    const before = this.target.value;
    const { targets } = this.language(this.source.value);
    this.target.replaceChildren(...options(targets));
    if (targets.some(({ code }) => code === before)) this.target.value = before;
  }

  language(code) {
    return this.languages.find((language) => language.code === code);
  }

  get pair() {
    return { source: this.source.value, target: this.target.value };
  }

  get swapReason() {
    const { source, target } = this.pair;
    if (this.language(target)?.targets.some(({ code }) => code === source)) return '';
    const [from, to] = [this.target, this.source].map((list) => list.selectedOptions[0]?.textContent ?? '');
    return `This server does not translate from ${from} to ${to}.`;
  }

  swap() {
    const { source, target } = this.pair;
    this.source.value = target;
    this.fillTargets();
    this.target.value = source;
  }
}

const options = (languages) => languages.map(({ code, name }) => element('option', { value: code }, name));
