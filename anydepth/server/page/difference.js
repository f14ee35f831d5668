// Where a translation differs from that at full depth, word by word.

// The changes that turn one list of words into another: {from, to, words}, where words stand in place of those from
// `from` up to, and without, `to`. Both are in order. By the longest common subsequence.
export function changes(ours, theirs) {
  let start = 0;
  while (start < ours.length && start < theirs.length && ours[start] === theirs[start]) start += 1;
  let end = 0;
  while (end < ours.length - start && end < theirs.length - start && ours.at(-1 - end) === theirs.at(-1 - end)) end += 1;
  const inner = innerChanges(ours.slice(start, ours.length - end), theirs.slice(start, theirs.length - end));
  return inner.map(({ from, to, words }) => ({ from: from + start, to: to + start, words }));
}

function innerChanges(ours, theirs) {
  const lengths = commonLengths(ours, theirs);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < ours.length || j < theirs.length) {
    if (i < ours.length && j < theirs.length && ours[i] === theirs[j]) {
      i += 1;
      j += 1;
      continue;
    }
    const last = found.at(-1);
    const open = last && last.to === i && last.until === j ? last : { from: i, to: i, words: [], until: j };
    if (open !== last) found.push(open);
    if (j >= theirs.length || (i < ours.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      i += 1;
    } else {
      open.words.push(theirs[j]);
      j += 1;
    }
    open.to = i;
    open.until = j;
  }
  return found.map(({ from, to, words }) => ({ from, to, words }));
}

// Length of the longest common subsequence of ours[i:] and theirs[j:], for every i and j.
function commonLengths(ours, theirs) {
  const lengths = Array.from({ length: ours.length + 1 }, () => new Uint32Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i -= 1) {
    for (let j = theirs.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = ours[i] === theirs[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

// For every sentence its changes against full depth. Both translate the same sentences, so each is compared alone.
export function sentenceChanges(ours, full) {
  const texts = (sentence) => sentence.words.map((word) => word.text);
  return ours.map((sentence, index) => (full[index] ? changes(texts(sentence), texts(full[index])) : []));
}

// The number of words that differ: those that full depth replaces or leaves out, and those that it adds.
export function countDifferences(sentences) {
  return sentences.flat().reduce((sum, { from, to, words }) => sum + Math.max(to - from, words.length), 0);
}
