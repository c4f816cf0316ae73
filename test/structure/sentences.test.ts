/** Sentences of pages, comments, texts of the product, ADRs and names of tests: how many of them `sentences.ts` finds. The counts may only fall. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';
import { isRustOfProduct, rustTextsIn } from './rust-texts.ts';
import { CHECKS, COUNTED, findHits, type Hit, isProse, listComments, listSentences, toProse } from './sentences.ts';
import { listPromiseNames, listTestNames, type TestName } from './test-names.ts';
import { textsIn } from './words.ts';

const ROOT = findPackageRoot();
const RECORD = join(ROOT, 'test/structure/sentences.json');
const paths = pathsOf(ROOT);
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** Longer sentences are read twice. */
const MOST_WORDS = 35;

type Counts = Readonly<Record<string, number>>;

interface Recorded {
  /** Subjects of commits after this one have no hits. */
  readonly subjectsSince: string;
  readonly longSentences: number;
  readonly hits: Readonly<Record<string, Counts>>;
}

const recorded = JSON.parse(readFileSync(RECORD, 'utf8')) as Recorded;

const isPage = (path: string): boolean => /^(?:README|AGENTS|ARCHITECTURE|docs\/(?!adr\/).*)\.md$/.test(path);

/** Tables of promises, which tests of several backends run. */
const isTable = (path: string): boolean => /^test\/conformance\/.*\.ts$/.test(path);

function namesOfTests(path: string): readonly TestName[] {
  // The rows of tests of this folder are wrong and right sentences.
  const rows = path.startsWith('test/structure/') ? 'skipped' : 'read';
  return [...listTestNames(path, read(path), rows), ...(isTable(path) ? listPromiseNames(path, read(path)) : [])];
}

/** Messages, remedies, diagnostics and help are in these sources. */
const isOfProduct = (path: string): boolean =>
  /\.(?:ts|mjs|cjs|js)$/.test(path) && !/\.test\.ts$|^(?:test|examples)\//.test(path);

/** Reads both languages of the product. */
function readTexts(path: string): ReturnType<typeof textsIn> {
  if (isRustOfProduct(path)) return rustTextsIn(read(path));
  return isOfProduct(path) ? textsIn(path, read(path)) : [];
}

/** Parses every source once, because two tests need the texts. */
let texts: readonly { readonly path: string; readonly line: number; readonly text: string }[] | null = null;

function listTexts(): NonNullable<typeof texts> {
  texts ??= paths.flatMap((path) =>
    readTexts(path).flatMap(({ line, text }) => (isProse(text) ? [{ path, line, text }] : [])),
  );
  return texts;
}

const KINDS: Readonly<Record<string, () => readonly Hit[]>> = {
  pages: () => paths.filter(isPage).flatMap((path) => findHits(path, toProse(read(path)))),
  adrs: () =>
    paths.filter((path) => /^docs\/adr\/.*\.md$/.test(path)).flatMap((path) => findHits(path, toProse(read(path)))),
  comments: () =>
    paths
      .filter((path) => /\.(?:ts|mjs|cjs|js|rs)$/.test(path))
      .flatMap((path) =>
        listComments(read(path)).flatMap(({ line, text }) =>
          findHits(path, text).map((hit) => ({ ...hit, where: `${path}:${line}` })),
        ),
      ),
  texts: () =>
    listTexts().flatMap(({ path, line, text }) =>
      findHits(path, text).map((hit) => ({ ...hit, where: `${path}:${line}` })),
    ),
  tests: () =>
    paths
      .filter((path) => path.endsWith('.test.ts') || isTable(path))
      .flatMap((path) =>
        namesOfTests(path).flatMap(({ line, text }) =>
          findHits(path, text, 'test').map((hit) => ({ ...hit, where: `${path}:${line}` })),
        ),
      ),
};

test.each(Object.keys(KINDS))('no check finds more in %s than the record says', (kind) => {
  const hits = KINDS[kind]!();
  const now = countById(hits);
  if (process.env['UPDATE'] === '1') return record(kind, now);
  const before = recorded.hits[kind]!;
  const risen = Object.keys(now).filter((id) => now[id]! > (before[id] ?? 0));
  const shown = hits
    .filter(({ id }) => risen.includes(id))
    .map(({ id, where, text, instead }) => `${where} ${id}: "${text}"; write: ${instead}`);
  expect(risen, shown.join('\n')).toEqual([]);
});

function countById(hits: readonly Hit[]): Counts {
  const counts: Record<string, number> = {};
  for (const { id } of COUNTED) {
    const count = hits.filter((hit) => hit.id === id).length;
    if (count > 0) counts[id] = count;
  }
  return counts;
}

function record(kind: string, counts: Counts): void {
  const now = JSON.parse(readFileSync(RECORD, 'utf8')) as Recorded;
  writeFileSync(RECORD, `${JSON.stringify({ ...now, hits: { ...now.hits, [kind]: counts } }, null, 2)}\n`);
}

test('the changelog has no hits', () => {
  expect(findHits('CHANGELOG.md', toProse(read('CHANGELOG.md')))).toEqual([]);
});

test('subjects of new commits have no hits', ({ skip }) => {
  const subjects = readSubjectsSince(recorded.subjectsSince);
  if (subjects === null)
    return skip(`there is no history since ${recorded.subjectsSince}: a package or a shallow clone`);
  expect(subjects.flatMap((subject) => findHits(subject, subject.replace(/^[\w./ -]+: /, ''), 'test'))).toEqual([]);
});

/** Null in a tree without this commit. */
function readSubjectsSince(commit: string): readonly string[] | null {
  try {
    const text = execFileSync('git', ['log', '--format=%s', `${commit}..HEAD`], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return text.split('\n').filter((line) => line !== '');
  } catch {
    return null;
  }
}

test(`the number of sentences of pages with more than ${MOST_WORDS} words only falls, and the mean is at most 16`, () => {
  const sentences = paths
    .filter(isPage)
    .flatMap((path) => listSentences(read(path)).map((each) => ({ path, ...each })));
  const long = sentences.filter(({ words }) => words > MOST_WORDS);
  const mean = sentences.reduce((sum, { words }) => sum + words, 0) / sentences.length;
  if (process.env['UPDATE'] === '1') {
    const now = JSON.parse(readFileSync(RECORD, 'utf8')) as Recorded;
    writeFileSync(RECORD, `${JSON.stringify({ ...now, longSentences: long.length }, null, 2)}\n`);
    return;
  }
  const shown = long.map(({ path, words, text }) => `${path}: ${words} words: ${text.slice(0, 120)}`);
  expect(long.length, shown.join('\n')).toBeLessThanOrEqual(recorded.longSentences);
  expect(mean).toBeLessThanOrEqual(16);
});

test('a guide has at most 600 words without code', () => {
  const guides = paths.filter((path) => path.startsWith('docs/guides/'));
  expect(guides.length).toBeGreaterThan(10);
  const long = guides.flatMap((path) => {
    const words = listSentences(read(path)).reduce((sum, sentence) => sum + sentence.words, 0);
    return words > 600 ? [`${path}: ${words} words`] : [];
  });
  expect(long).toEqual([]);
});

const WRONG: Readonly<Record<string, string>> = {
  'of-first': 'The log is read. Of a stage only its name counts',
  'what-first': 'What was saved is the word of a guest.',
  'who-first': 'Who starts a run chooses its name',
  'come-to': 'the stage comes to a result',
  'go-on': 'the run goes on',
  'is-none': 'a guess of it is none',
  stand: 'the events that stand already',
  'where-if': 'it is empty where nothing was written',
  'as-any': 'it fails as any other command does',
  nobody: 'Nobody is billed',
  alone: 'it lists the tokens alone',
  behind: 'the worker waits behind the lock',
  anew: 'the file is made anew',
  'by-itself': 'the server restarts by itself',
  'is-said': 'how many are left out is said',
  'look-at': 'a look at the log',
  'that-of': 'the limit is that of the host',
  'any-more': 'the file is not there any more',
  'for-who': 'a message for who reads it',
  'in-all': 'at the most ten files',
};

const RIGHT: Readonly<Record<string, string>> = {
  'of-first': 'The name of a stage counts. Of course the log has the rest.',
  'what-first': 'What is a stage? Saved data comes from the guest.',
  'who-first': 'Who can read it? The user who starts a run chooses its name.',
  'come-to': 'the stage returns a result',
  'go-on': 'the run continues',
  'is-none': 'estimates are ignored',
  stand: 'the message stands out, and `ro` stands for read-only',
  'where-if': 'the folder where the log is',
  'as-any': 'it fails like every other command',
  nobody: 'you are not billed, and `nobody` is a user of Unix',
  alone: 'it lists only the tokens',
  behind: 'the worker waits for the lock',
  anew: 'the file is made again',
  'by-itself': 'the server restarts automatically',
  'is-said': 'the line says how many are hidden',
  'look-at': 'it reads the log',
  'that-of': 'the limit is the host’s',
  'any-more': 'the file is no longer there',
  'for-who': 'a message for the reader',
  'in-all': 'at most ten files',
};

test.each(CHECKS)('the check $id finds a wrong sentence, and passes a right one', ({ id, pattern }) => {
  expect(`${WRONG[id]!}\n`).toMatch(new RegExp(pattern, pattern.flags.replace('g', '')));
  expect(`${RIGHT[id]!}\n`).not.toMatch(new RegExp(pattern, pattern.flags.replace('g', '')));
});

test('a hint is counted for nothing', () => {
  expect(findHits('x', 'the worker waits behind the lock')).toEqual([]);
});

test('the prose of a page has neither code nor targets of links nor quoted names of tests, and its lines keep their numbers', () => {
  const page = ['```', 'Of this', '```', '[a](docs/Whoever.md)', '`a.test.ts` "nobody waits"', 'It goes on.'].join(
    '\n',
  );
  expect(findHits('x.md', toProse(page))).toEqual([
    { id: 'go-on', where: 'x.md:6', text: 'goes on', instead: 'continue' },
  ]);
});

test('lines of comments that follow each other are one comment', () => {
  const source = [
    '/**',
    ' * One',
    ' * sentence.',
    ' * @returns two',
    ' */',
    'const a = 1; // three',
    '// four',
    '/// five',
    'x',
  ];
  expect(listComments(source.join('\n'))).toEqual(
    [
      { line: 6, text: 'three' },
      { line: 2, text: 'One sentence.' },
      { line: 4, text: '@returns two' },
      { line: 7, text: 'four five' },
    ].toSorted((one, other) => one.line - other.line),
  );
});

test('the sources of the product have texts, in TypeScript and in Rust', () => {
  const inRust = listTexts().filter(({ path }) => path.endsWith('.rs'));
  expect(listTexts().length - inRust.length).toBeGreaterThan(4_000);
  expect(inRust.length).toBeGreaterThan(500);
});

test.each(['the run goes on', 'stage … has none', ' and … more', 'write `a: b`, or remove it', 'bytes: …'])(
  'a text for people is prose: %s',
  (text) => {
    expect(isProse(text)).toBe(true);
  },
);

test.each([
  'nobody',
  'stage/timeout',
  'nobody:x:65534:/bin/false',
  '…',
  ' ',
  'set -eu\ncd "$1"',
  '#!/bin/sh\necho a b',
])('a text for programs is not prose: %j', (text) => {
  expect(isProse(text)).toBe(false);
});

test('names of tests are found with their groups, tables and values', () => {
  const source = ["test('one', f);", "test.each([1])('two %s', f);", 'describe(`three ${x}`, f);', "expect('four');"];
  expect(listTestNames('x.ts', source.join('\n')).map(({ text }) => text)).toEqual(['one', 'two %s', 'three …']);
});

test('the names of rows are found in the titles of their tests, from lists, objects and loops', () => {
  const source = [
    "const ROWS = [['a first row', 1], ['-x', 2]] as const;",
    "test.each(ROWS)('%s has %i', f);",
    "const NAMED = [{ title: 'a named row', name: 'x' }];",
    "it.each(NAMED)('$title is $name', f);",
    "test.each(Object.entries({ 'a key of words': 1, word: 2 }))('of %s', f);",
    'for (const { title } of NAMED) test(title, f);',
    'for (const [name] of ROWS) test(name, f);',
    'for (const row of NAMED) describe(row.title, f);',
    "test.each(['one of many words'])('%s', f);",
    "test.each(made())('%s', f);",
  ];
  expect(listTestNames('x.ts', source.join('\n')).map(({ line, text }) => `${line} ${text}`)).toEqual([
    '2 %s has %i',
    '1 a first row has …',
    '4 $title is $name',
    '3 a named row is …',
    '5 of %s',
    '5 of a key of words',
    '3 a named row',
    '1 a first row',
    '9 %s',
    '9 one of many words',
    '10 %s',
  ]);
});

test('the names of promises in a table are found', () => {
  const source = "export const A = [{ name: 'a promise', run: f }, { name: 'b', run() {} }, { name: 'a value' }];";
  expect(listPromiseNames('x.ts', source).map(({ text }) => text)).toEqual(['a promise', 'b']);
});

test('a name of a test that begins with `of` is found', () => {
  expect(findHits('x', 'of a stage, the last attempt counts', 'test')).toHaveLength(1);
  expect(findHits('x', 'of a stage, the last attempt counts')).toEqual([]);
});

test('each cell of a table is a sentence, and code is one word', () => {
  const page = ['# A title', 'One two. Three `a b c` four!', '| a b | c |', '|---|---|', '```', 'x y', '```'].join(
    '\n',
  );
  expect(listSentences(page).map(({ words }) => words)).toEqual([2, 2, 3, 2, 1]);
});
