// Requests to the server that this page came from.

// An answer that is no success: the server's sentence, its status (0: no answer at all) and the seconds to wait.
export class RequestError extends Error {
  constructor(sentence, status, wait) {
    super(sentence);
    this.status = status;
    this.wait = wait;
  }
}

// The languages that are served, each with the codes it can be translated to; those without any are left out.
export async function readLanguages() {
  const languages = await answerTo('languages');
  const names = new Map(languages.map(({ code, name }) => [code, name]));
  return languages
    .map(({ code, name, targets }) => ({ code, name, targets: targets.filter((other) => other !== code) }))
    .filter(({ targets }) => targets.length > 0)
    .map(({ code, name, targets }) => (
      { code, name, targets: targets.map((other) => ({ code: other, name: names.get(other) ?? other })) }));
}

// The depths between which one may choose, cheapest first and full depth last.
export function readDepths(pair, signal) {
  return answerTo(`depths?${new URLSearchParams(pair)}`, { signal });
}

// The translation of a text at a depth, with the exit of every word.
export function translate(text, pair, depth, { alternatives, key, signal }) {
  const wish = { q: text, ...pair, format: 'text', alternatives, policy: depth.policy, exits: true };
  if (depth.vocabulary) wish.vocabulary = depth.vocabulary;
  if (key) wish.api_key = key;
  return answerTo('translate', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(wish), signal,
  });
}

async function answerTo(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: 'no-store', credentials: 'omit', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new RequestError('The server does not answer. It may have stopped, or the connection is gone.', 0, 0);
  }
  const content = await response.json().catch((error) => { if (error.name === 'AbortError') throw error; });
  if (response.ok && content !== undefined) return content;
  throw new RequestError(
    content?.error ?? `The server answered with status ${response.status} and gave no reason.`,
    response.status,
    Number(response.headers.get('Retry-After')) || 0,
  );
}
