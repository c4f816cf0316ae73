/** Phrases that readers stumbled over, what to write instead, and the texts of a source that people read. */
import { childrenOf, is, type Node, parse } from '../../skill-kit/lint/syntax.ts';

interface Phrase {
  readonly pattern: RegExp;
  readonly instead: string;
}

/** Nouns that must not follow `is no`; `is no longer` is plain English. */
const KINDS =
  '(?:number|text|string|list|name|object|file|folder|folders|path|step|skill|session|run|page|host|port|network|word|event|command|output|reference|ref|claim|table|argument|kind|way|program|module|value|id|key|TypeScript|JavaScript|JSON|YAML|part|such)';

const PHRASES: readonly Phrase[] = [
  { pattern: /\bof one's own\b/i, instead: 'your own …' },
  { pattern: /\bof (?:ours|yours)\b/i, instead: 'Voidbox …, your …' },
  { pattern: /\bgoing-through\b/i, instead: 'execution, visit' },
  { pattern: /\bcarrying-out\b/i, instead: 'execution' },
  { pattern: /\bmend(?:s|ed|ing)?\b/i, instead: 'fix, correct; repair for what Voidbox does itself' },
  { pattern: new RegExp(String.raw`(?<!\b[Tt]here )\b(?:is|are) no ${KINDS}\b`), instead: 'is not a …' },
  { pattern: /\btakes an? [\w ]+ and has\b/, instead: 'must be a …, got …' },
  { pattern: /\bhas to be\b/, instead: 'must be' },
  { pattern: /\bwhoever\b/i, instead: 'the user who …, the client that …' },
  { pattern: /\bfor who\b/i, instead: 'for the …' },
  { pattern: /\bbug of\b/i, instead: 'bug in' },
  { pattern: /\bbe a worker of\b/i, instead: 'run a worker for' },
  { pattern: /\bfor good\b|\bfor ever\b/i, instead: 'permanently, forever' },
  { pattern: /\blook(?:s|ed)? after\b/i, instead: 'maintain, own' },
  { pattern: /\ball the same\b/i, instead: 'still' },
  { pattern: /\bnothing needs\b/i, instead: 'unreferenced, unused' },
  { pattern: /\bnobody(?: \w+)? needs\b/i, instead: 'unused' },
  { pattern: /\b(?:can't|cannot) be told\b/i, instead: 'is not known, cannot be distinguished' },
  { pattern: /\bcannot be had\b|\bcan't be had\b/i, instead: 'is not available' },
  { pattern: /\btake (?:it|them) out\b/i, instead: 'remove it' },
  { pattern: /\banew\b/i, instead: 'again' },
  { pattern: /\btrouble, trying on\b/i, instead: 'retrying' },
  { pattern: /\bas many as (?:there may be|this server)\b/i, instead: 'at most …' },
  { pattern: /\bno more than \d/i, instead: 'at most …' },
  { pattern: /\bthe most is\b/i, instead: 'at most … are allowed' },
  { pattern: /\bis there already\b|\bexists already\b/i, instead: 'already exists' },
  { pattern: /\b([a-z]{3,}) \1\b(?!\?:)/, instead: 'the word once' },
  { pattern: /\bType (?:it|the command|more)\b/, instead: 'Run it, use' },
];

/**
 * Phrases that are translated word by word, or that hide the subject of a sentence. Messages, remedies and help contain
 * none of them.
 */
const MESSAGE_PHRASES: readonly Phrase[] = [
  ...PHRASES,
  { pattern: /(?<=^|[.;:!?] |\n)Of (?!course)[a-z`]/, instead: 'In …, for …, if …' },
  { pattern: /\b(?:go|goes|went|going) on\b/i, instead: 'continue' },
  { pattern: /\b(?:come|comes|came) to\b/i, instead: 'the result of …, return' },
  { pattern: /(?<![\w-])(?:nobody|somebody|anybody) \w/i, instead: 'the person, worker or command that …' },
  { pattern: /\bin place of\b/i, instead: 'instead of' },
  { pattern: /\bmeanwhile\b/i, instead: 'until then' },
  { pattern: /\bby (?:itself|themselves)\b/, instead: 'automatically, on its own' },
  { pattern: /\b(?:says? so|is said|are told)\b/, instead: 'names it, prints …' },
  { pattern: /\bany ?more\b/, instead: 'no longer' },
];

/** One line for each phrase found: the place, the phrase, and what to write instead. */
export function phrasesIn(where: string, text: string, kind: 'message' | 'page' = 'page'): readonly string[] {
  return (kind === 'message' ? MESSAGE_PHRASES : PHRASES).flatMap(({ pattern, instead }) => {
    const [found] = pattern.exec(text) ?? [];
    return found === undefined ? [] : [`${where}: "${found}"; write: ${instead}`];
  });
}

/** Exact terms that contain the word: an agent's skill, a SKILL.md of others, a part of a step machine, the package's name. */
const EXACT_SKILLS = /\bagent skills?\b|\bskill folders?\b|\bsub-?skills?\b|\bskill-kit\b/gi;
const BARE_SKILL = /(?<![\w./<$-])[Ss]kills?(?![\w./>-]|:\w)/;
const CODE = /`[^`]*`|"[^"]*"|\]\([^)]*\)/g;

/**
 * Returns the place of a "skill" that may be a step machine, an agent skill or a skill folder, or nothing.
 * Code in backticks, quoted names and addresses of links keep the word, because keys and commands are called so.
 */
export function bareSkillIn(where: string, text: string): readonly string[] {
  const bare = text
    .replace(CODE, '·')
    .replace(EXACT_SKILLS, '·')
    .replace(/\bvoidbox skill\b/g, '·');
  return BARE_SKILL.test(bare)
    ? [`${where}: "${text.trim().slice(0, 100)}"; write: step machine, agent skill or skill folder`]
    : [];
}

/** Returns the headings of a page with a bare "skill", and the first bare "skill" in its text if no exact term precedes it. */
export function bareSkillsOfPage(where: string, page: string): readonly string[] {
  const found: string[] = [];
  let exact = false;
  // Blocks of code keep their lines, so that numbers of lines stay.
  const lines = page.replace(/^```[^]*?^```/gm, (block) => block.replace(/[^\n]/g, '')).split('\n');
  for (const [index, line] of lines.entries()) {
    const place = `${where}:${index + 1}`;
    const before = /^([^]*?)(?:step machines?|agent skills?|skill folders?)/i.exec(line.replace(CODE, '·'));
    const bare = bareSkillIn(place, line.startsWith('#') || before === null ? line : before[1]!);
    if (line.startsWith('#') || !exact) found.push(...bare);
    exact ||= before !== null || bare.length > 0;
  }
  return found;
}

/** Returns the literals and templates of a source with their first lines; a value that is filled in becomes `…`. */
export function textsIn(path: string, source: string): readonly { readonly line: number; readonly text: string }[] {
  const found: { readonly line: number; readonly text: string }[] = [];
  let [line, at] = [1, 0];
  // Nodes come in the order of their source, so that each line is counted once.
  const lineOf = (start: number): number => {
    if (start < at) [line, at] = [1, 0];
    for (let end = source.indexOf('\n', at); end !== -1 && end < start; end = source.indexOf('\n', at))
      [line, at] = [line + 1, end + 1];
    return line;
  };
  const visit = (node: Node): void => {
    if (is(node, 'ImportDeclaration')) return;
    const text = toText(node);
    if (text !== null) found.push({ line: lineOf(node.start), text });
    for (const child of childrenOf(node)) visit(child);
  };
  visit(parse(path, source));
  return found;
}

/** The text of a literal or a template with `…` for its values; null for another node. */
export function toText(node: Node): string | null {
  if (is(node, 'Literal')) return typeof node.value === 'string' ? node.value : null;
  if (!is(node, 'TemplateLiteral')) return null;
  return node.quasis.map(({ value }) => value.cooked ?? value.raw).join('…');
}
