/** Texts for people are plain English: help, messages, remedies and docs contain none of the phrases in `words.ts`. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { COMMANDS } from '../../cli/command-table.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { typeCommand } from '../rig/runs/typed-command.ts';
import { pathsOf } from './imports.ts';
import { isRustOfProduct, rustTextsIn } from './rust-texts.ts';
import { bareSkillIn, bareSkillsOfPage, phrasesIn, textsIn } from './words.ts';

const ROOT = findPackageRoot();
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

// The help of every command loads every command. A loaded machine takes a minute for it, which is not the time of a test.
for (const entry of COMMANDS) for (const each of 'commands' in entry ? entry.commands : [entry]) await each.load();

/** Parses each source once. */
const texts = new Map<string, ReturnType<typeof textsIn>>();
function readTexts(path: string): ReturnType<typeof textsIn> {
  const found = texts.get(path) ?? textsIn(path, read(path));
  texts.set(path, found);
  return found;
}

test('help of every command', async () => {
  const lines = COMMANDS.flatMap((entry) => [
    [entry.name],
    ...('commands' in entry ? entry.commands.map((verb) => [entry.name, verb.name]) : []),
  ]);
  const found: string[] = [];
  for (const line of [[], ...lines]) {
    const { stdout } = await typeCommand([...line, '--help'], ROOT, {});
    expect(stdout).toContain('Usage:');
    // The end of a line may be in the middle of a phrase. The next line is indented, and columns are two blanks apart.
    const help = stdout.replace(/\n {6,}/g, ' ');
    found.push(...phrasesIn(`voidbox ${[...line, '--help'].join(' ')}`, help, 'message'));
    // The first column has usages such as `skill run ENTRY`, and names of arguments.
    for (const row of help.split('\n'))
      found.push(...bareSkillIn(`voidbox ${line.join(' ')} --help`, row.replace(/^ *skill(?: {2,}| \w+ )/, '')));
  }
  expect(found).toEqual([]);
});

test('messages, remedies and all other texts of the sources', () => {
  const sources = pathsOf(ROOT).filter((path) => /\.(?:ts|mjs|js)$/.test(path) && !/\.test\.ts$|^test\//.test(path));
  expect(sources.length).toBeGreaterThan(400);
  const found = sources.flatMap((path) => {
    // Recorded histories contain the messages of workflows and of the machine that they run.
    const kind = /^(?:workflows|domain\/pipeline)\//.test(path) ? 'page' : 'message';
    return readTexts(path).flatMap(({ line, text }) => phrasesIn(`${path}:${line}`, text, kind));
  });
  expect(found).toEqual([]);
});

test('messages, help and all other texts of the sources in Rust', () => {
  const sources = pathsOf(ROOT).filter(isRustOfProduct);
  expect(sources.length).toBeGreaterThan(100);
  const found = sources.flatMap((path) =>
    rustTextsIn(read(path)).flatMap(({ line, text }) => phrasesIn(`${path}:${line}`, text, 'message')),
  );
  expect(found).toEqual([]);
});

// Within these rooms each skill is a step machine, and a built one tells agents that it is a skill.
const ROOMS_OF_STEP_MACHINES = /^(?:skill-kit|domain\/step-machine|workers\/skills|bench)\//;

test('no message and no remedy leaves open which kind of skill it means', () => {
  const sources = pathsOf(ROOT).filter(
    (path) =>
      /\.(?:ts|mjs|js)$/.test(path) &&
      !/\.test\.ts$|^(?:test|examples)\//.test(path) &&
      !ROOMS_OF_STEP_MACHINES.test(path),
  );
  expect(sources.length).toBeGreaterThan(300);
  const found = sources.flatMap((path) =>
    readTexts(path)
      // A text with one word is a key, a kind or a name; a usage begins with the command.
      .filter(({ text }) => /\w \w/.test(text) && !/^skill (?:\w+ )?[A-Z]+/.test(text))
      .flatMap(({ line, text }) => bareSkillIn(`${path}:${line}`, text)),
  );
  expect(found).toEqual([]);
});

test('pages, and the examples with their comments', () => {
  const pages = [
    'README.md',
    'ARCHITECTURE.md',
    'AGENTS.md',
    'CHANGELOG.md',
    'examples/README.md',
    ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
    ...readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(?:yaml|ts)$/.test(name) && !name.endsWith('.test.ts'))
      .map((name) => `examples/${name}`),
  ];
  expect(pages.length).toBeGreaterThan(60);
  const found = pages.flatMap((path) =>
    read(path)
      .split('\n')
      // Names of tests are quoted as they are.
      .flatMap((line, index) => phrasesIn(`${path}:${index + 1}`, line.replace(/(`[^`]*\.(?:ts|rs)` )"[^"]*"/g, '$1'))),
  );
  expect(found).toEqual([]);
});

test('no heading of a page has a bare "skill", and an exact term precedes the first one of its text', () => {
  const pages = [
    'README.md',
    'ARCHITECTURE.md',
    'CHANGELOG.md',
    'examples/README.md',
    ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ];
  expect(pages.length).toBeGreaterThan(60);
  const found = pages.flatMap((path) => bareSkillsOfPage(path, read(path)));
  // A reader looks up one row of the table, so each row is exact.
  const table = read('AGENTS.md')
    .split('\n')
    .flatMap((line, index) => bareSkillIn(`AGENTS.md:${index + 1}`, line));
  expect([...found, ...table]).toEqual([]);
});

test.each([
  'the skill of stage a was not admitted',
  "the skill's name",
  'Skills differ in their schema',
  'an agent skill, or a skill',
])('a bare skill is found: %s', (text) => {
  expect(bareSkillIn('x:1', text)).toEqual([expect.stringContaining('x:1: ')]);
});

test.each([
  'an agent skill and a skill folder',
  'a sub-skill of a step machine',
  'the key `skill`, the flag --skills',
  '<skill>',
])('an exact skill is not: %s', (text) => {
  expect(bareSkillIn('x:1', text)).toEqual([]);
});

test('a page is exact from its first exact term on, except in headings', () => {
  const page = ['# Step machines', 'A skill runs.', '## A skill'].join('\n');
  expect(bareSkillsOfPage('x', page)).toEqual([expect.stringContaining('x:3: ')]);
  expect(bareSkillsOfPage('x', 'Run a skill, then a step machine.\nThe skill ends.')).toEqual([
    expect.stringContaining('x:1: '),
  ]);
  expect(bareSkillsOfPage('x', '```\nskill\n```\n')).toEqual([]);
});

test.each([
  ["without a server of one's own", "of one's own"],
  ['Mend what cargo says, then try again.', 'Mend'],
  ['VOIDBOX_X is `x`, which is no number of milliseconds.', 'is no number'],
  ['`name` takes a text and has a list', 'takes a text and has'],
  ['delete old runs and what nothing needs any more', 'nothing needs'],
  ['"a" is no network, such as 198.41.0.0/16', 'is no network'],
  ['this is a bug of voidbox', 'bug of'],
  ['be a worker of your own Temporal server', 'be a worker of'],
  ['it is refused for good', 'for good'],
  ['the run cannot be looked after', 'looked after'],
  ['the spec is valid all the same', 'all the same'],
])('a phrase is found: %s', (text, phrase) => {
  expect(phrasesIn('x.ts:1', text)).toEqual([expect.stringContaining(`x.ts:1: "${phrase}"`)]);
});

test.each([
  ['the spec is read. Of a stage only its name counts', 'Of a'],
  ['stage fix goes on from its save', 'goes on'],
  ['write what stage fix comes to', 'comes to'],
  ['stage ask has no answer, because nobody answered', 'nobody a'],
  ['give the stage in place of its name', 'in place of'],
  ['runs keep running meanwhile', 'meanwhile'],
  ['the server restarts by itself', 'by itself'],
  ['raise `max_output_mb` if the message says so', 'says so'],
  ['session s is not there any more', 'any more'],
])('a phrase is found in messages only: %s', (text, phrase) => {
  expect(phrasesIn('x.ts:1', text, 'message')).toEqual([expect.stringContaining(`x.ts:1: "${phrase}`)]);
  expect(phrasesIn('x.md:1', text)).toEqual([]);
});

test('plain English is not: what is no longer there, what must be fixed', () => {
  expect(phrasesIn('x', 'The file is no longer there. Fix the name: at most 64 characters.')).toEqual([]);
});

test('texts of a source are its literals and templates, and neither comments nor types', () => {
  const source = [
    "import { a } from './mend.ts';",
    '/** Whoever reads this. */',
    "type Kind = 'mend';",
    'const b = `mend',
    "${a('fix')} it`;",
  ].join('\n');
  expect(textsIn('x.ts', source)).toEqual([
    { line: 4, text: 'mend\n… it' },
    { line: 5, text: 'fix' },
  ]);
});
