/**
 * Twenty checks of sentences that readers read twice: a sentence without its subject, an actor without a name, a verb that
 * means several things. `words.ts` has phrases with a plain form; these checks find whole kinds.
 */
export interface Check {
  readonly id: string;
  readonly pattern: RegExp;
  /** What to write. */
  readonly instead: string;
  /** It also finds good sentences, so it is counted for nothing and only shown. */
  readonly isHint?: true;
}

export const CHECKS: readonly Check[] = [
  {
    id: 'of-first',
    pattern: /(?:^|[.;:!?] |[-*|] |\*\* |")Of (?!course)(?=[a-zA-Z`])/gm,
    instead: 'begin with the subject: in …, for …, if …',
  },
  {
    id: 'what-first',
    pattern: /(?:^|[.;:] |[-*|] |\*\* )What (?!(?:is|are|does|do|happens|can|to)\b)[a-z`][^.?\n]*[.\n;]/gm,
    instead: 'name the thing: the files that …',
  },
  {
    id: 'who-first',
    pattern: /(?:^|[.;:] |, |\| )[Ww]ho (?!(?:is|are|can|do|does|must)\b[^.\n]*\?)[a-z`]/gm,
    instead: 'name the actor: the user who …, the client that …',
  },
  { id: 'come-to', pattern: /\b(?:come|comes|came) to\b/g, instead: 'return, result in, reach' },
  { id: 'go-on', pattern: /\b(?:go|goes|went|going) on\b/g, instead: 'continue' },
  {
    id: 'is-none',
    pattern: /\b(?:is|are|was|has|have|had|gets?|takes?|leaves?|needs?) none\b/g,
    instead: 'does not exist, is not a …, no …',
  },
  {
    id: 'stand',
    pattern: /\b(?:stands?|stood)\b(?! (?:out|alone|still|by|for)\b)/g,
    instead: 'is, lies, is written in, applies',
  },
  {
    id: 'where-if',
    pattern:
      /\b[Ww]here (?:nothing|nobody|it (?:is|has|does|cannot)|there (?:is|are)|one is|the (?:spec|stage|run|host) (?:says|has|is|names)|a [a-z]+ (?:has|is|names))\b/g,
    instead: 'if',
  },
  { id: 'as-any', pattern: /\bas (?:any|always|everywhere|every)\b/g, instead: 'like every …, as usual' },
  {
    id: 'nobody',
    pattern: /(?<!`)\b(?:nobody|somebody|anybody|whoever)\b/gi,
    instead: 'the person, process or command that …',
  },
  { id: 'alone', pattern: /\b(?:it|its?|[a-z]+s?) alone\b/g, instead: 'only, before the noun' },
  { id: 'behind', pattern: /\b(?:behind|beside)\b/g, instead: 'after, next to', isHint: true },
  {
    id: 'anew',
    pattern: /\b(?:anew|meanwhile|by then|in place of|in its place)\b/g,
    instead: 'again, until then, instead of',
  },
  { id: 'by-itself', pattern: /\bby (?:itself|themselves)\b/g, instead: 'automatically, on its own' },
  {
    id: 'is-said',
    pattern: /\b(?:it is said|is said|is told|are told|says? so|said so|nothing is said|says? none)\b/g,
    instead: 'name who says it, and where',
  },
  { id: 'look-at', pattern: /\b(?:look(?:s|ed|ing)? at|a look)\b/g, instead: 'read, check', isHint: true },
  {
    id: 'that-of',
    pattern: /\b(?:is|are|than|has|have|with|in|as) (?:that|those) of\b/g,
    instead: 'repeat the noun',
  },
  { id: 'any-more', pattern: /\bany ?more\b/g, instead: 'no longer', isHint: true },
  { id: 'for-who', pattern: /\b(?:for|to|by|of) who\b/g, instead: 'for the user who …' },
  { id: 'in-all', pattern: /\b(?:at the most|in all\b|as many as)/g, instead: 'at most, together' },
];

export const COUNTED = CHECKS.filter(({ isHint }) => isHint !== true);

/** Names of tests begin with a small letter. */
const OF_FIRST_OF_TESTS = /^of (?!course)(?=[a-zA-Z`])/gm;

export interface Hit {
  readonly id: string;
  readonly where: string;
  readonly text: string;
  readonly instead: string;
}

/** Hits in a text, with the lines of the text. */
export function findHits(where: string, text: string, kind: 'text' | 'test' = 'text'): readonly Hit[] {
  return COUNTED.flatMap(({ id, pattern, instead }) => {
    const patterns = kind === 'test' && id === 'of-first' ? [pattern, OF_FIRST_OF_TESTS] : [pattern];
    return patterns.flatMap((each) =>
      [...`${text}\n`.matchAll(each)].map(({ index, 0: found }) => ({
        id,
        where: `${where}:${text.slice(0, index).split('\n').length}`,
        text: found.trim().slice(0, 80),
        instead,
      })),
    );
  });
}

/** The prose of a page: without blocks of code, targets of links and quoted names of tests. Lines keep their numbers. */
export function toProse(page: string): string {
  return page
    .replace(/^(```|~~~)[^]*?^\1/gm, (block) => block.replace(/[^\n]/g, ''))
    .replace(/<!--[^]*?-->/g, (block) => block.replace(/[^\n]/g, ''))
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/(`[^`]*\.(?:ts|rs)` )"[^"]*"/g, '$1');
}

/** The comments of a source, each with the number of its first line. Lines that follow each other are one comment. */
export function listComments(source: string): readonly { readonly line: number; readonly text: string }[] {
  const found: { line: number; text: string }[] = [];
  let open: { line: number; texts: string[] } | null = null;
  const close = (): void => {
    if (open !== null) found.push({ line: open.line, text: open.texts.join(' ') });
    open = null;
  };
  for (const [index, line] of source.split('\n').entries()) {
    const whole = /^\s*(?:\/\/[/!]?|\/\*\*?|\*\/?)(?: (.*?))?(?:\*\/)?\s*$/.exec(line);
    const behind = whole === null ? /[;,{})\]] \/\/ (.+)$/.exec(line) : null;
    const text = (whole ?? behind)?.[1]?.trim();
    // A tag, an item of a list and an empty line begin a sentence.
    if (whole === null || text === undefined || text === '' || /^(?:@|- )/.test(text)) close();
    if (text === undefined || text === '') continue;
    if (behind !== null) found.push({ line: index + 1, text });
    else if (open === null) open = { line: index + 1, texts: [text] };
    else open.texts.push(text);
  }
  close();
  return found;
}

/**
 * Whether a literal or a template is text for people: it has a word of letters, and a blank before or after it. Programs
 * for shells and JavaScript have blanks too, and are not.
 */
export function isProse(text: string): boolean {
  return /\p{L}{2,}\P{L}* |(?:^| )\P{L}*\p{L}{2,}/u.test(text) && text.includes(' ') && !CODE.test(text);
}

const CODE = /^\s*(?:#!|set -|import |export |const |let |function |async )/;

/** The sentences of a page, each with its number of words. Code in backticks counts as one word, each cell of a table as a sentence. */
export function listSentences(page: string): readonly { readonly text: string; readonly words: number }[] {
  const blocks = toProse(page)
    .split('\n')
    .flatMap((line) => (/^\s*\|/.test(line) ? line.split(/(?<!\\)\|/) : [line]))
    .map((line) => line.replace(/^\s*(?:#+|[-*+]|\d+\.|>)\s+/, '').trim())
    .filter((line) => line !== '' && !/^:?-+:?$/.test(line));
  return blocks.flatMap((block) =>
    block
      .replace(/`[^`]*`/g, 'code')
      .split(/(?<=[.!?]["”)*]*)\s+(?=[A-Z"“*(c])/)
      .map((text) => ({ text, words: text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length }))
      .filter(({ words }) => words > 0),
  );
}
